"""Wheels of extensions that are what was planned, and wheels that are not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from extension.compiled_modules import compiled, written_wheel
from extension.torch_trees import ONLY_THIS, PLAIN, SASS, libtorch_cuda
from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.proof.module_checks import ExpectedModule, library_problems, verify_extension_contents
from torchwheel.reporting.errors import Problem
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.objfile import LibraryFormat, Linkage
from torchwheel.wheel.proof import Expectation

MODULE = "kernels/_C.cpython-311-x86_64-linux-gnu.so"
VERSION = "1.2+cu130.sm120.torch2.14"
KERNEL = """
__global__ void scale(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2.0f; }
extern "C" void launch(float* x, int n) { scale<<<1, 32>>>(x, n); }
"""
HOST = 'extern "C" void* PyInit__C() { return nullptr; }'
Planned = tuple[Expectation, Sequence[str], Sequence[ExpectedModule]]


def expected(
    *modules: ExpectedModule,
    architectures: ArchitectureList | None = None,
    version: str = VERSION,
    python_tag: str = "cp311",
    abi_tag: str = "cp311",
    editable: bool = False,
) -> Planned:
    labels = Expectation(
        name="Kernels",
        version=version,
        cuda="13.0",
        architectures=architectures,
        python_tag=python_tag,
        abi_tag=abi_tag,
        platform_tag="linux_x86_64",
        editable=editable,
    )
    return labels, ("torch>=2.14,<2.15",), modules


def violations(path: Path, planned: Planned) -> tuple[Problem, ...]:
    return verify_extension_contents(inspect_wheel(path), *planned)


@pytest.fixture(scope="module")
def host_module(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(tmp_path_factory.mktemp("host"), HOST).read_bytes()


@pytest.fixture(scope="module")
def compiled_by_nvcc(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """For sm_90a and sm_120."""
    if shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc on PATH")
    folder = tmp_path_factory.mktemp("cuda")
    source, target = folder / "kernel.cu", folder / "kernel.so"
    source.write_text(KERNEL, encoding="utf-8")
    gencode = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in ("90a", "120")]
    options = [*gencode, "-cudart=shared", "-Xcompiler=-fPIC", "-shared"]
    command = ["nvcc", *options, str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return target.read_bytes()


@pytest.fixture(scope="module")
def cuda_module() -> bytes:
    """The same in little: a library with a fat binary and nothing else."""
    return libtorch_cuda((SASS, 90, ONLY_THIS, 1), (SASS, 120, PLAIN, 1))


def test_as_planned(host_module: bytes, tmp_path: Path) -> None:
    path = written_wheel(tmp_path, {MODULE: host_module})
    assert violations(path, expected(ExpectedModule(MODULE, None))) == ()


@pytest.mark.parametrize("made", [pytest.param("compiled_by_nvcc", marks=pytest.mark.nvcc), "cuda_module"])
def test_device_code_as_planned(made: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    both = parse_architectures("9.0a;12.0")
    path = written_wheel(tmp_path, {MODULE: request.getfixturevalue(made)})
    assert violations(path, expected(ExpectedModule(MODULE, both), architectures=both)) == ()


def test_each_module_has_its_own_device_code(cuda_module: bytes, host_module: bytes, tmp_path: Path) -> None:
    """What one module lacks is not made up for by another that has it."""
    planned = parse_architectures("8.0;12.0")
    other = "kernels/more/_C.cpython-311-x86_64-linux-gnu.so"
    path = written_wheel(tmp_path, {MODULE: cuda_module, other: host_module})
    modules = (ExpectedModule(MODULE, planned), ExpectedModule(other, parse_architectures("12.0")))
    found = [(one.id, one.origin) for one in violations(path, expected(*modules))]
    assert found == [
        ("missing-device-code", f"{path}: {MODULE}"),
        ("unplanned-device-code", f"{path}: {MODULE}"),
        ("missing-device-code", f"{path}: {other}"),
    ]


def test_device_code_that_nobody_wants(cuda_module: bytes, tmp_path: Path) -> None:
    path = written_wheel(tmp_path, {MODULE: cuda_module})
    (problem,) = violations(path, expected(ExpectedModule(MODULE, None)))
    assert (problem.id, problem.why) == ("unplanned-device-code", "planned: no device code")


@pytest.mark.parametrize("planned", [None, "12.0"])
def test_device_code_in_files_that_are_no_module(
    planned: str | None, cuda_module: bytes, host_module: bytes, tmp_path: Path
) -> None:
    architectures = parse_architectures(planned) if planned else None
    module = libtorch_cuda((SASS, 120, PLAIN, 1)) if planned else host_module
    path = written_wheel(tmp_path, {MODULE: module, "kernels/data": cuda_module})
    (problem,) = violations(
        path, expected(ExpectedModule(MODULE, architectures), architectures=architectures)
    )
    labels = "sm90a" if planned else "sm90a, sm120"
    assert (problem.id, problem.what, problem.origin) == (
        "unplanned-device-code",
        f"it has code for {labels}, which was not planned",
        f"{path}: kernels/data",
    )


def test_labels_and_requirements(host_module: bytes, tmp_path: Path) -> None:
    path = written_wheel(tmp_path, {MODULE: host_module}, version="1.2", requires=["torch>=2.4"])
    problems = violations(path, expected(ExpectedModule(MODULE, None), python_tag="cp310", abi_tag="abi3"))
    assert [problem.what for problem in problems] == [
        f"its file name says 1.2, planned is {VERSION}",
        f"METADATA's Version says 1.2, planned is {VERSION}",
        "its file name's Python tag says cp311, planned is cp310",
        "its file name's ABI tag says cp311, planned is abi3",
        "METADATA does not require torch>=2.14,<2.15",
    ]
    assert problems[-1] == Problem.of("missing-requirement", origin=path, requirement="torch>=2.14,<2.15")


def test_a_module_that_python_could_not_import(tmp_path: Path) -> None:
    path = "kernels/_D.abi3.so"
    for source, what in (
        (HOST, "it has PyInit__C, but Python looks for PyInit__D"),
        (HOST + HOST.replace("_C", "_D"), None),
        ("int torch_ops_alone() { return 1; }", None),
    ):
        module = compiled(tmp_path, source).read_bytes()
        wheel = written_wheel(tmp_path / "wheels", {path: module})
        found = violations(wheel, expected(ExpectedModule(path, None)))
        assert [(one.id, one.what) for one in found] == ([("module-not-importable", what)] if what else [])


def test_a_module_that_is_not_there(host_module: bytes, tmp_path: Path) -> None:
    path = written_wheel(tmp_path, {"_C.so": host_module})
    assert violations(path, expected(ExpectedModule(MODULE, None))) == (
        Problem.of("missing-module", origin=path, module=MODULE, present="_C.so"),
    )
    editable = expected(ExpectedModule(MODULE, None), editable=True)
    assert violations(path, editable) == ()
    held = expected(ExpectedModule("_C.so", parse_architectures("9.0")), editable=True)
    assert [problem.id for problem in violations(path, held)] == ["missing-device-code"]


def test_a_stable_module_that_is_not(tmp_path: Path) -> None:
    source = """
    namespace c10 { void f(); }
    extern "C" void* PyObject_Vectorcall();
    extern "C" int torch_from_blob();
    extern "C" void* PyInit__C() { c10::f(); torch_from_blob(); return PyObject_Vectorcall(); }
    """
    path = written_wheel(
        tmp_path / "wheel",
        {"kernels/_C.abi3.so": compiled(tmp_path / "module", source).read_bytes()},
        tag="cp310-abi3-linux_x86_64",
    )
    module = ExpectedModule("kernels/_C.abi3.so", None, stable_abi="2.10", limited_api="3.10")
    problems = violations(path, expected(module, python_tag="cp310", abi_tag="abi3"))
    origin = f"{path}: kernels/_C.abi3.so"
    assert [(problem.id, problem.origin) for problem in problems] == [
        ("outside-stable-abi", origin),
        ("outside-stable-abi", origin),
        ("outside-limited-api", origin),
    ]
    unstable = ExpectedModule("kernels/_C.abi3.so", None)
    assert violations(path, expected(unstable, python_tag="cp310", abi_tag="abi3")) == ()


def naming(*libraries: str) -> Linkage:
    return Linkage(LibraryFormat.ELF, libraries, ())


@pytest.mark.parametrize(
    "library",
    ["libpython3.11.so.1.0", "python311.dll", "python313t.dll", "libtorch_python.so", "torch_python.dll"],
)
def test_libraries_of_one_python(library: str) -> None:
    linkage = naming("libc10.so", library)
    assert not list(library_problems(linkage, limited_api=False, cuda=None, origin="m.so"))
    assert list(library_problems(linkage, limited_api=True, cuda=None, origin="m.so")) == [
        Problem.of("linked-with-one-python", origin="m.so", libraries=library)
    ]


@pytest.mark.parametrize(
    ("library", "cuda", "expected_what"),
    [
        ("libcudart.so.13", "13.0", None),
        ("cudart64_13.dll", "13.1", None),
        ("cudart64_110.dll", "11.8", None),
        ("python3.dll", "13.0", None),
        ("libcudart.so.12", "13.0", "it is linked with libcudart.so.12, but was planned with CUDA 13.0"),
        ("cudart64_110.dll", "12.9", "it is linked with cudart64_110.dll, but was planned with CUDA 12.9"),
        ("libcudart.so.13", None, "it is linked with libcudart.so.13, but was planned without CUDA"),
    ],
)
def test_cudas_runtime(library: str, cuda: str | None, expected_what: str | None) -> None:
    problems = library_problems(naming(library), limited_api=True, cuda=cuda, origin="m.so")
    assert [(p.id, p.what) for p in problems] == (
        [("other-cuda-runtime", expected_what)] if expected_what else []
    )
