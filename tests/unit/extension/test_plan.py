"""What a plan decides before PyTorch's own command makes its steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extension.planning import CUDA_13, GIB, LINUX, errors, installed, plan
from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.extension.wheel_record import record_of
from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem

KERNELS = Extension(name="kernels._C", sources=("csrc/op.cpp", "csrc/sm90/gemm.cu"))


def test_without_a_target_the_architectures_are_pytorchs_as_far_as_the_toolkit_compiles_them(
    tmp_path: Path,
) -> None:
    extension = Extension(name="k", sources=("k.cu",))
    made = plan(tmp_path, extension, torch_architectures="5.0;7.5;9.0;12.0+PTX")
    assert str(made.architectures) == "7.5;9.0;12.0+PTX"


def test_the_projects_own_architecture_flags_count_while_nobody_asks_for_a_target(tmp_path: Path) -> None:
    flags = {
        Language.CUDA: ("-gencode", "arch=compute_80,code=sm_80", "-DSEARCH", "--arch-like", "-arch=sm_90")
    }
    extension = Extension(name="k", sources=("k.cu",), flags=flags, origin="setup.py")
    made = plan(tmp_path, extension)
    assert str(made.architectures) == "8.0;9.0+PTX"
    assert made.extensions[0].options == ("-gencode=arch=compute_80,code=sm_80", "-arch=sm_90")


@pytest.mark.parametrize(
    ("flags", "request_", "expected", "ids"),
    [
        # A plain form is replaced by the target's own.
        ("arch=compute_80,code=sm_80", {"target": "rtx5070"}, ["120:120"], ["architecture-flags-overruled"]),
        # Kernels are written for the instructions of a form with a or f that runs on the target.
        ("arch=compute_90a,code=sm_90a", {"target": "h100"}, ["90a:90a"], []),
        ("arch=compute_90a,code=sm_90a", {"arch": "9.0+PTX"}, ["90a:90a", "90a:compute_90a"], []),
        ("arch=compute_120f,code=sm_120f", {"arch": "12.1"}, ["120f:120f"], []),
        (
            "arch=compute_80,code=sm_80;arch=compute_90a,code=sm_90a",
            {"target": "h100"},
            ["90a:90a"],
            ["architecture-flags-overruled"],
        ),
        (
            "arch=compute_90,code=sm_90;arch=compute_90a,code=sm_90a",
            {"target": "h100"},
            ["90:90", "90a:90a"],
            [],
        ),
        (
            "arch=compute_80,code=sm_80;arch=compute_90a,code=sm_90a",
            {"target": "a100"},
            ["80:80"],
            ["architecture-flags-overruled"],
        ),
        # What is requested anyway is compiled by the project's own flags.
        ("arch=compute_80,code=sm_86", {"arch": "8.6"}, ["80:86"], []),
        ("arch=compute_80,code=sm_86", {}, ["80:86"], []),
    ],
)
def test_a_target_beside_the_projects_architecture_flags(
    tmp_path: Path, flags: str, request_: dict[str, str], expected: list[str], ids: list[str]
) -> None:
    own = tuple(word for pair in flags.split(";") for word in ("-gencode", pair))
    extension = Extension(name="k", sources=("k.cu",), flags={Language.CUDA: own}, origin="setup.py")
    made = plan(tmp_path, extension, config=request_)
    assert [finding.id for finding in made.findings] == ids
    (planned,) = made.extensions
    assert planned.usual is not None
    options = planned.options or planned.usual.for_nvcc()
    assert [one.replace("-gencode=arch=compute_", "").replace(",code=sm_", ":").replace(",code=", ":")
            for one in options] == expected  # fmt: skip


@pytest.mark.parametrize("arch", ["12.0", "9.0;12.0"])
def test_a_form_that_does_not_serve_the_target_is_an_error(tmp_path: Path, arch: str) -> None:
    flags = {Language.CUDA: ("-gencode=arch=compute_90a,code=sm_90a",)}
    extension = Extension(name="k", sources=("k.cu",), flags=flags, origin="setup.py, extension k")
    made = plan(tmp_path, extension, config={"arch": arch})
    assert [finding.id for finding in errors(made)] == ["architecture-flags-miss-target"]


def test_an_extension_for_other_gpus_is_compiled_for_them_beside_one_for_the_target(tmp_path: Path) -> None:
    """Such as torchao's, which loads each on its own GPU."""
    flags = {Language.CUDA: ("-gencode=arch=compute_90a,code=sm_90a",)}
    own = Extension(name="k90", sources=("k.cu",), flags=flags, origin="setup.py, extension k90")
    other = Extension(name="k", sources=("other.cu",), origin="setup.py, extension k")
    made = plan(tmp_path, own, other, config={"target": "rtx5070"})
    assert [str(planned.usual) for planned in made.extensions] == ["9.0a", "12.0"]
    assert [finding.id for finding in made.findings] == ["architecture-flags-miss-target"]
    assert str(made.architectures) == "9.0a;12.0"


def test_a_variable_does_not_overrule_the_projects_architecture_flags(tmp_path: Path) -> None:
    """torch.utils.cpp_extension reads TORCH_CUDA_ARCH_LIST only where no flag says what to compile for."""
    flags = {Language.CUDA: ("-gencode", "arch=compute_90a,code=sm_90a")}
    extension = Extension(name="k", sources=("k.cu",), flags=flags, origin="setup.py, extension k")
    made = plan(tmp_path, extension, environment={"TORCH_CUDA_ARCH_LIST": "12.0"})
    assert made.extensions[0].options == ("-gencode=arch=compute_90a,code=sm_90a",)
    assert [finding.id for finding in made.findings] == ["architecture-variable-overruled"]
    named = plan(
        tmp_path, extension, environment={"TORCHWHEEL_TARGET": "h200", "TORCH_CUDA_ARCH_LIST": "8.0"}
    )
    assert str(named.architectures) == "9.0a"


@pytest.mark.parametrize("name", ["CUDAFLAGS", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"])
def test_architectures_in_a_variable_of_nvccs_are_an_error(tmp_path: Path, name: str) -> None:
    """nvcc would compile for them besides, and the wheel would fail its proof."""
    given = {name: "-ccbin=g++ -gencode arch=compute_80,code=sm_80"}
    made = plan(tmp_path, KERNELS, config={"target": "rtx5070"}, environment=given)
    assert [finding.problem for finding in errors(made)] == [
        Problem.of(
            "variables-add-architectures/extension",
            origin=f"variable {name}",
            name=name,
            flags="-gencode arch=compute_80,code=sm_80",
        )
    ]
    without = {name: "-ccbin=g++"}
    assert errors(plan(tmp_path, KERNELS, config={"target": "rtx5070"}, environment=without)) == []
    assert errors(plan(tmp_path, Extension(name="k", sources=("a.cpp",)), environment=given)) == []


def _changed(host: Host, **python: str) -> Host:
    return replace(host, python=replace(host.python, **python))


def _with_compiler(language: str) -> Host:
    compilers = tuple(
        replace(compiler, identity="other:2:2") if compiler.language == language else compiler
        for compiler in LINUX.compilers
    )
    return replace(LINUX, compilers=compilers)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"host": _with_compiler("c")}, id="C compiler"),
        pytest.param({"host": _with_compiler("cxx")}, id="C++ compiler"),
        pytest.param({"host": _changed(LINUX, interpreter_tag="cp312")}, id="Python"),
        pytest.param({"host": _changed(LINUX, abi_tag="cp311d")}, id="ABI of Python"),
        pytest.param({"toolkit": replace(CUDA_13, identity="nvcc:2:2")}, id="toolkit"),
        pytest.param({"torch": installed(identity="2.14.1+cu130, built again")}, id="PyTorch"),
        pytest.param({"config": {"target": "a100"}}, id="architectures"),
        pytest.param({"config": {"target": "rtx5070", "build-type": "Debug"}}, id="build type"),
        *(
            pytest.param({"environment": {name: "x"}}, id=name)
            for name in ("CPATH", "LIBRARY_PATH", "NVCC_APPEND_FLAGS")
        ),
    ],
)
def test_other_tools_are_another_identity(tmp_path: Path, changed: dict[str, Any]) -> None:
    """What was compiled with others must neither be taken over nor be undone."""
    extension = Extension(name="k", sources=("k.cu",))
    asked = {"config": {"target": "rtx5070"}}
    one, other = plan(tmp_path, extension, **asked), plan(tmp_path, extension, **{**asked, **changed})
    assert one.folder != other.folder
    assert one.folder.name.startswith("my project-")
    asked["config"]["jobs"] = "3"
    assert plan(tmp_path, extension, **asked).folder == one.folder


def test_free_threaded_python_has_a_module_of_its_own(tmp_path: Path) -> None:
    """It has no limited API, and takes no wheel tagged abi3."""
    stable = Extension(name="k._C", sources=("k.cpp",), stable_abi="2.10", cuda=False)
    host = _changed(LINUX, interpreter_tag="cp313", abi_tag="cp313t")
    made = plan(tmp_path, stable, host=host, module_suffixes=(".cpython-313t-x86_64-linux-gnu.so", ".so"))
    (planned,) = made.extensions
    assert planned.file_name == "k/_C.cpython-313t-x86_64-linux-gnu.so"
    assert not planned.extension.limited_api
    record = record_of(made)
    assert (record.requires, record.limited_api) == (("torch>=2.10",), False)
    assert [(f.severity.value, f.id) for f in made.findings] == [("note", "no-limited-api-here")]


def test_jobs_count_what_nvcc_takes(tmp_path: Path) -> None:
    plain = Extension(name="k", sources=("a.cpp",))
    small = replace(LINUX, memory_bytes=16 * GIB)
    counts = [
        plan(tmp_path, one, config={"target": "rtx5070"}, host=small).jobs.max_jobs
        for one in (plain, KERNELS)
    ]
    assert counts[1] < counts[0]
