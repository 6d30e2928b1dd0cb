"""Modules that keep to the stable ABIs they are built for, modules that do not, and the names in their symbols."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from extension.compiled_modules import compiled
from limits import within_limits
from torchwheel.proof.stable_abi import (
    global_name,
    limited_api_violations,
    stable_abi_violations,
    unstable_names,
)
from torchwheel.reporting.errors import Problem
from torchwheel.wheel.objfile import LibraryFormat, Linkage, platform_problems, read_linkage

GOOD = """
#include <string>
#include <vector>
namespace c10 { struct Half { short bits; }; }
namespace torch { namespace stable { struct Tensor { void* handle; }; } }
namespace mine { void half(c10::Half); void tensor(const torch::stable::Tensor&); }
extern "C" int aoti_torch_get_dim(void*, long*);
extern "C" int torch_call_dispatcher(const char*, const char*, void*, unsigned long);
extern "C" void* PyModule_Create2(void*, int);
extern "C" char _Py_NoneStruct;
extern "C" void* PyInit__C() {
    std::vector<c10::Half> halves(3);
    torch::stable::Tensor tensor{nullptr};
    mine::half(halves[0]);
    mine::tensor(tensor);
    long dim;
    aoti_torch_get_dim(&_Py_NoneStruct, &dim);
    torch_call_dispatcher("", "", &dim, 0);
    return PyModule_Create2(nullptr, 1013);
}
"""

BAD = """
#include <string>
namespace at { struct Tensor { void* p; ~Tensor(); Tensor add(const Tensor&) const; }; }
namespace c10 { struct Device { void validate() const; }; }
namespace mine { void take(const at::Tensor&); }
extern "C" int torch_from_blob();
extern "C" int aoti_torch_cuda_caching_allocator_raw_alloc();
extern "C" int aoti_torch_nobody_has_this();
extern "C" void* PyObject_Vectorcall();
extern "C" void* PyUnicode_AsUTF8(void*);
extern "C" void* PyInit__C();
extern "C" char THPVariableClass;
bool THPVariable_Check(void*);
extern "C" void use(at::Tensor& t) {
    t.add(t);
    c10::Device().validate();
    mine::take(t);
    torch_from_blob() + aoti_torch_cuda_caching_allocator_raw_alloc() + aoti_torch_nobody_has_this();
    PyUnicode_AsUTF8(PyObject_Vectorcall());
    THPVariable_Check(&THPVariableClass);
}
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("good"), GOOD)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("bad"), BAD)


def violations(module: Path, requested: str = "2.10") -> tuple[Problem, ...]:
    """What is wrong with a module for this PyTorch, for Python 3.10 and for any Linux."""
    with module.open("rb") as stream:
        linkage = read_linkage(stream, str(module))
    return (
        *stable_abi_violations(linkage, requested, str(module)),
        *limited_api_violations(linkage, "3.10", str(module)),
        *platform_problems(linkage, "linux_x86_64", str(module)),
    )


def test_a_module_that_keeps_to_them(good: Path) -> None:
    assert violations(good) == ()


def test_a_module_that_breaks_all(bad: Path) -> None:
    cxx, shim, python = violations(bad)
    assert cxx.id == shim.id == "outside-stable-abi"
    prefix = "it uses PyTorch's C++ API, which is not in the stable ABI: "
    assert set(cxx.what.removeprefix(prefix).split(", ")) == {
        "at::Tensor",
        "at::Tensor::add",
        "c10::Device::validate",
        "THPVariable_Check",
        "THPVariableClass",
    }
    assert set(
        shim.what.removeprefix("it calls functions that PyTorch 2.10 does not have: ").split(", ")
    ) == {"torch_from_blob (since 2.11)", "aoti_torch_nobody_has_this"}
    assert (shim.remedy, shim.origin) == ("leave these calls out", str(bad))
    assert (python.id, python.origin) == ("outside-limited-api", str(bad))
    assert set(
        python.what.removeprefix("it uses what the limited API of Python 3.10 does not have: ").split(", ")
    ) == {"PyObject_Vectorcall (since 3.12)", "PyUnicode_AsUTF8"}


def importing(*names: str) -> Linkage:
    return Linkage(LibraryFormat.PE, (), names)


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (
            ("?torchCheckFail@detail@c10@@YAXPEBD0I0@Z", "?half@mine@@YAXUHalf@c10@@@Z"),
            ["outside-stable-abi"],
        ),
        (("?half@mine@@YAXUHalf@c10@@@Z", "aoti_torch_get_dim"), []),
        (("torch_from_blob", "aoti_torch_get_dim"), ["outside-stable-abi"]),
    ],
)
def test_symbols_of_windows(names: tuple[str, ...], ids: list[str]) -> None:
    assert [one.id for one in stable_abi_violations(importing(*names), "2.10", "m.pyd")] == ids
    assert [one.id for one in stable_abi_violations(importing("torch_from_blob"), "2.11", "m.pyd")] == []


def test_other_functions_that_begin_alike_are_the_projects_own() -> None:
    assert not list(stable_abi_violations(importing("torch_scatter_sum", "cudaMalloc"), "2.10", "m.pyd"))


STABLE_KERNEL = """
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>
using torch::stable::Tensor;
Tensor turned(const Tensor& t) {
  STD_TORCH_CHECK(t.dim() == 2, "two dimensions, not ", t.dim());
  return torch::stable::transpose(t, 0, 1);
}
STABLE_TORCH_LIBRARY(demo, m) { m.def("turned(Tensor t) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(demo, CPU, m) { m.impl("turned", TORCH_BOX(&turned)); }
"""

UNSTABLE_KERNEL = """
#include <ATen/core/Tensor.h>
extern "C" long elements(const at::Tensor& t) { TORCH_CHECK(t.defined(), "none"); return t.clone().numel(); }
"""


@pytest.fixture(scope="module")
def compiled_with_torch(
    torch_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], Path]:
    """Compiles a source against PyTorch's real headers."""
    command = [torch_python, "-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parent)"]
    root = Path(
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.strip()
    )

    def compile_(source: str, *flags: str) -> Path:
        includes = (f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include")
        return compiled(tmp_path_factory.mktemp("torch"), source, "-std=c++20", *includes, *flags)

    return compile_


def test_pytorchs_own_headers(compiled_with_torch: Callable[..., Path]) -> None:
    limited = compiled_with_torch(STABLE_KERNEL, "-DTORCH_TARGET_VERSION=0x020a000000000000")
    assert violations(limited) == ()
    assert [problem.id for problem in violations(limited, "2.9")] == ["outside-stable-abi"]
    newest = compiled_with_torch(STABLE_KERNEL)
    (problem,) = violations(newest)
    assert "torch_exception_get_what (since 2.13)" in problem.what


def test_pytorchs_other_headers(compiled_with_torch: Callable[..., Path]) -> None:
    (problem,) = violations(compiled_with_torch(UNSTABLE_KERNEL))
    assert "c10::detail::torchCheckFail" in problem.what


ITANIUM = {
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE": [
        "c10::detail::torchCheckFail"
    ],
    "_ZNK2at6Tensor3addERKS0_": ["at::Tensor::add"],
    "_ZN2at6TensorD1Ev": ["at::Tensor"],
    "_ZTVN5torch8autograd4NodeE": ["torch::autograd::Node"],
    "_ZTIN3c105ErrorE": ["c10::Error"],
    "_ZGVZN3c106detail3oneEvE3two": ["c10::detail::one"],
    "_ZNKSt6vectorIN2at6TensorESaIS1_EE4sizeEv": ["at::Tensor"],
    "_ZN4mine3ptrEN3c1013intrusive_ptrIN2at10TensorImplEEE": ["c10::intrusive_ptr", "at::TensorImpl"],
    "_ZN4mine4halfEN3c104HalfE": [],
    "_ZN3c104Half3runEv": ["c10::Half::run"],
    "_ZN4mine2at3runEv": [],
    "_Z16THPVariable_WrapRKN2at6TensorE": ["THPVariable_Wrap", "at::Tensor"],
    "_ZNSt6vectorIiSaIiEE9push_backERKi": [],
    "_ZSt4cout": [],
    "_ZN" + "9" * 5_000: [],
    "aoti_torch_get_dim": [],
}

MSVC = {
    "?torchCheckFail@detail@c10@@YAXPEBD0I0@Z": ["c10::detail::torchCheckFail"],
    "?add@Tensor@at@@QEBA?AV12@AEBV12@@Z": ["at::Tensor::add"],
    "??1Tensor@at@@QEAA@XZ": ["at::Tensor"],
    "??_7Tensor@at@@6B@": ["at::Tensor"],
    "?take@mine@@YAXAEBVTensor@at@@@Z": ["at::Tensor"],
    "?half@mine@@YAXUHalf@c10@@@Z": [],
    "?type@mine@@YAXW4ScalarType@c10@@@Z": ["c10::ScalarType"],
    "??$make@VTensor@at@@@mine@@YAXXZ": ["at::Tensor"],
    "?run@mine@@YAXXZ": [],
    "PyErr_Clear": [],
}


@pytest.mark.parametrize("symbol", [*ITANIUM, *MSVC])
def test_unstable_names(symbol: str) -> None:
    assert list(unstable_names(symbol)) == {**ITANIUM, **MSVC}[symbol]


@pytest.mark.parametrize("symbol", [symbol for symbol, found in ITANIUM.items() if found])
def test_cxxfilt_shows_the_same_names(symbol: str) -> None:
    program = shutil.which("c++filt")
    if program is None:
        pytest.skip("there is no c++filt on PATH")
    shown = subprocess.run([program, symbol], capture_output=True, text=True, check=True, timeout=60).stdout
    for name in unstable_names(symbol):
        assert name in shown


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("THPVariableClass", "THPVariableClass"),
        ("_Z17THPVariable_CheckPv", "THPVariable_Check"),
        ("?THPVariable_Check@@YA_NPEAX@Z", "THPVariable_Check"),
        ("_ZN2at6TensorD1Ev", "_ZN2at6TensorD1Ev"),
        ("?run@mine@@YAXXZ", "?run@mine@@YAXXZ"),
    ],
)
def test_global_name(symbol: str, expected: str) -> None:
    assert global_name(symbol) == expected


@pytest.mark.parametrize(
    "symbol",
    [
        "_Z" + "N1" * 200_000,
        "_ZN3c10" + "1N3c10" * 60_000,
        "?" + "a@" * 200_000,
        "?" + "0" * 400_000 + "@c10@@",
    ],
    ids=["N1N1", "c10", "a@a@", "digits"],
)
def test_a_long_symbol_takes_linear_time(symbol: str) -> None:
    within_limits(lambda: list(unstable_names(symbol)))
