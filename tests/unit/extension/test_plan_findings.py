"""What is wrong with a build of extensions is told before it starts, all of it, each with a remedy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extension.planning import LINUX, WINDOWS, cpu_torch, errors, inputs, installed, plan
from torchwheel.extension.extension_plan import Extension, Language
from torchwheel.extension.options import target_without_code
from torchwheel.host.machine import Compiler
from torchwheel.reporting.errors import Problem, TorchwheelError

KERNEL = Extension(name="k", sources=("k.cu",), origin="pyproject.toml, extension k")


def problems(tmp_path: Path, extension: Extension = KERNEL, **keywords: Any) -> list[str]:
    """The errors as a user sees them; a plan with errors has no steps."""
    made = plan(tmp_path, extension, **{"config": {"target": "rtx5070"}, **keywords})
    assert errors(made)
    assert made.extensions == ()
    return [finding.problem.render() for finding in errors(made)]


def broken(rule: str, origin: str = "", **values: str) -> str:
    return Problem.of(rule, origin, **values).render()


def test_cuda_sources_and_a_pytorch_without_cuda(tmp_path: Path) -> None:
    assert problems(tmp_path, torch=cpu_torch(), toolkit=None) == [
        Problem.of(
            "torch-without-cuda",
            origin="pyproject.toml, extension k",
            extensions="k",
            torch="2.14.1+cpu",
            root="/env/lib/python3.11/site-packages/torch",
        ).render()
    ]


def test_cuda_sources_and_a_pytorch_for_rocm(tmp_path: Path) -> None:
    torch = installed(version="2.14.1+rocm7.0", cuda=None, hip="7.0.1")
    assert problems(tmp_path, torch=torch, toolkit=None) == [
        Problem.of(
            "torch-for-rocm",
            origin="pyproject.toml, extension k",
            extensions="k",
            torch="2.14.1+rocm7.0",
            rocm="7.0.1",
        ).render()
    ]


def test_cuda_sources_and_the_target_cpu(tmp_path: Path) -> None:
    assert problems(tmp_path, config={"target": "cpu"})[0] == (
        Problem.of(
            "cpu-target-with-cuda-sources",
            origin="pyproject.toml, extension k",
            extensions="k",
            origin_of_target="-C target",
        ).render()
    )


def test_sources_that_are_missing_or_none(tmp_path: Path) -> None:
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "kernel.cpp").touch()
    sources = ("csrc/kernels.cpp", "gone.cpp", "csrc/op.h", "csrc/fast.pyx")
    extension = Extension(name="k", sources=sources, origin="setup.py, extension k")
    found = problems(tmp_path, extension, missing=sources[:2], project=str(tmp_path))
    assert found == [
        Problem.of(
            "source-missing/extension",
            origin="setup.py, extension k",
            source="csrc/kernels.cpp",
            extension="k",
            path=f"{tmp_path}/csrc/kernels.cpp",
            advice="did you mean csrc/kernel.cpp?",
        ).render(),
        Problem.of(
            "source-missing/extension",
            origin="setup.py, extension k",
            source="gone.cpp",
            extension="k",
            path=f"{tmp_path}/gone.cpp",
            advice="check the path, which is relative to the project's folder, and that an sdist holds the file",
        ).render(),
        Problem.of(
            "unknown-source-language",
            origin="setup.py, extension k",
            source="csrc/op.h",
            extension="k",
            suffix=".h",
            languages=".c, .cc, .cpp, .cxx, .c++, .cu",
            advice="leave it out of the sources; headers are found by themselves",
        ).render(),
        Problem.of(
            "unknown-source-language",
            origin="setup.py, extension k",
            source="csrc/fast.pyx",
            extension="k",
            suffix=".pyx",
            languages=".c, .cc, .cpp, .cxx, .c++, .cu",
            advice="install Cython for a setup.py; elsewhere run cython --cplus, and name the .cpp file that it writes",
        ).render(),
    ]


def test_no_sources_at_all(tmp_path: Path) -> None:
    assert problems(tmp_path, Extension(name="k", sources=(), origin="setup.py, extension k")) == [
        Problem.of("no-sources", origin="setup.py, extension k", extension="k").render()
    ]


def test_a_host_compiler_that_the_toolkit_refuses(tmp_path: Path) -> None:
    assert problems(tmp_path, cxx_version="16.1.0") == [
        broken(
            "host-compiler-refused-by-cuda",
            version="13.0",
            compiler="GCC 16.1.0 (/usr/bin/c++)",
            limit="it takes GCC up to 15",
            authority="torchwheel's table of CUDA releases",
            nearest="install g++-15 and say CXX=g++-15, or use a newer CUDA",
        )
    ]


def test_a_setup_py_may_have_a_module_without_sources(tmp_path: Path) -> None:
    """setuptools links it; deepspeed has such modules for what a machine does not support."""
    assert errors(plan(tmp_path, Extension(name="k", sources=(), by_setup_py=True))) == []


def test_a_host_compiler_for_nvcc_alone(tmp_path: Path) -> None:
    """torch.utils.cpp_extension gives CC to nvcc, and projects have -ccbin, where the usual compiler is too new."""
    older = replace(LINUX.compilers[0], path="/usr/bin/gcc-12", version="12.2.0")
    assert errors(plan(tmp_path, KERNEL, cxx_version="16.1.0", cuda_host=older)) == []
    for flags in (("-ccbin", "g++-12"), ("--compiler-bindir=g++-12",)):
        own = replace(KERNEL, flags={Language.CUDA: flags})
        assert errors(plan(tmp_path, own, cxx_version="16.1.0")) == []
    newer = replace(older, version="16.1.0")
    found = plan(tmp_path, KERNEL, cxx_version="12.2.0", cuda_host=newer).findings
    assert [finding.id for finding in found] == ["host-compiler-refused-by-cuda"]


def test_a_host_compiler_that_a_flag_makes_the_toolkit_take(tmp_path: Path) -> None:
    silenced = replace(KERNEL, flags={Language.CUDA: ("-allow-unsupported-compiler",)})
    found = plan(tmp_path, silenced, cxx_version="16.1.0").findings
    assert [(f.severity.value, f.id) for f in found] == [("warning", "host-compiler-check-silenced")]


def test_a_host_compiler_that_does_not_know_pytorchs_standard(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("a.cpp",))
    assert problems(tmp_path, extension, cxx_version="9.4.0") == [
        broken(
            "host-compiler-too-old",
            compiler="GCC 9.4.0 (/usr/bin/c++)",
            pytorch="2.14.1+cu130",
            needed="10 or later",
            reason="its sources are C++20, which gcc knows from 10 on",
            nearest="install gcc 10 or later",
        )
    ]


@pytest.mark.parametrize(
    ("host", "compiler", "asked", "nearest"),
    [
        (
            LINUX,
            None,
            "",
            "install one: sudo apt-get install g++, or sudo dnf install gcc-c++; or name one that is installed "
            "with CXX",
        ),
        (
            LINUX,
            Compiler("cxx", "gcc", "g++-99", "99", ""),
            ": CXX names g++-99, which does not exist",
            "correct CXX, or unset it to use the compiler on PATH",
        ),
        (
            WINDOWS,
            None,
            "",
            "install one: the Visual Studio Build Tools, and build in their x64 Native Tools Command Prompt; or "
            "name one that is installed with CXX",
        ),
    ],
)
def test_no_host_compiler(
    tmp_path: Path, host: Any, compiler: Compiler | None, asked: str, nearest: str
) -> None:
    expected = broken("no-host-compiler", language="C++", asked=asked, nearest=nearest)
    without = replace(host, compilers=() if compiler is None else (compiler,))
    assert problems(tmp_path, Extension(name="k", sources=("a.cpp",)), host=without) == [expected]


@pytest.mark.parametrize(("source", "language"), [("a.cpp", "cxx"), ("a.c", "c")])
def test_a_compiler_that_does_not_work(tmp_path: Path, source: str, language: str) -> None:
    """What is asked of the C compiler is asked only where there is C: plan_extensions."""
    compiler = LINUX.find_compiler("cxx" if language == "cxx" else "c")
    assert compiler is not None
    unanswered = {compiler.path: "it took longer than 10 seconds"}
    assert problems(tmp_path, Extension(name="k", sources=(source,)), unanswered=unanswered) == [
        broken(
            "host-compiler-does-not-work",
            compiler=f"GCC ({compiler.path})",
            reason="it took longer than 10 seconds",
            nearest="CXX" if language == "cxx" else "CC",
        )
    ]


def test_an_nvcc_that_does_not_work(tmp_path: Path) -> None:
    unanswered = {"/usr/local/cuda-13.0/bin/nvcc": "nvcc ended with status 3, and prints nothing"}
    assert problems(tmp_path, unanswered=unanswered) == [
        broken(
            "nvcc-does-not-work",
            "CUDA_HOME",
            nvcc="/usr/local/cuda-13.0/bin/nvcc",
            reason="nvcc ended with status 3, and prints nothing",
            nearest="",
        )
    ]


def test_a_pytorch_without_cuda_is_the_only_error(tmp_path: Path) -> None:
    """No target would help."""
    made = plan(tmp_path, KERNEL, torch=cpu_torch(), toolkit=None, torch_architectures=None)
    assert [finding.id for finding in errors(made)] == ["torch-without-cuda"]


def test_no_architecture_to_build_for_beside_a_warning(tmp_path: Path) -> None:
    kernel = replace(KERNEL, flags={Language.CUDA: ("-std=c++17",)})
    made = plan(tmp_path, kernel, torch_architectures=None)
    assert [finding.id for finding in made.findings] == ["no-target", "cxx-standard-raised"]


def test_no_architecture_to_build_for(tmp_path: Path) -> None:
    assert problems(tmp_path, config={}, torch_architectures=None) == [
        Problem.of(
            "no-target/extension",
            origin="pyproject.toml, extension k",
            extension="k",
            torch="2.14.1+cu130",
            root="/env/lib/python3.11/site-packages/torch",
        ).render()
    ]


def test_a_stable_abi_that_is_newer_than_the_installed_pytorch(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("a.cpp",), stable_abi="2.15", origin="setup.py, extension k")
    (problem,) = errors(plan(tmp_path, extension))
    assert problem.id == "stable-abi-too-new"
    assert "2.15" in problem.problem.what
    assert "2.14.1" in problem.problem.what


def test_a_pytorch_without_headers_and_a_stable_abi_that_is_none(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("a.cpp",), stable_abi="latest", origin="setup.py, extension k")
    made = plan(tmp_path, extension, torch=installed(has_headers=False))
    assert [finding.id for finding in errors(made)] == ["torch-without-headers", "malformed-stable-abi"]


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    extension = Extension(name="k", sources=("k.cu", "op.h"), stable_abi="2.15", origin="setup.py")
    made = plan(tmp_path, extension, host=replace(LINUX, compilers=()), torch=cpu_torch(), toolkit=None)
    ids = {finding.id for finding in errors(made)}
    assert {"unknown-source-language", "torch-without-cuda", "no-host-compiler"} <= ids
    assert len(errors(made)) >= 4


ARRAY = '[[tool.torchwheel.extension]]\nname = "k"\nsources = ["a.cpp"]\n'
OWN_ALONE = "the Python tag py3 instead of cp311, the ABI tag none instead of cp311"


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(
    ("told", "has", "of_limited"),
    [
        ({"wheel.tags": "cp311-cp311-any"}, "the platform tag any", "the platform tag any"),
        (
            {"wheel.platlib": "off"},
            f"{OWN_ALONE}, the platform tag any",
            "the platform tag any",
        ),
        ({"wheel.py-api": "py3"}, OWN_ALONE, ""),
        ({"wheel.tags": "cp311-cp311-manylinux_2_36_x86_64"}, "", ""),
        ({"wheel.py-api": "cp312"}, "", ""),
    ],
)
def test_what_scikit_build_core_is_told_of_the_wheels_tags(
    tmp_path: Path, told: dict[str, str], has: str, of_limited: str, limited: bool
) -> None:
    """torchwheel names the Pythons itself that a wheel of Python's limited API is for."""
    (tmp_path / "pyproject.toml").write_text(ARRAY, encoding="utf-8")
    made = plan(tmp_path, Extension(name="k", sources=("a.cpp",), limited_api=limited), config=told)
    wrong = of_limited if limited else has
    assert [finding.problem.render() for finding in errors(made)] == [
        Problem.of(
            "wheel-tag/planned",
            origin=f"-C {key}",
            tags=wrong,
            fix="leave it out; for a wheel of several Pythons build each module with limited-api",
        ).render()
        for key in told
        if wrong
    ]


def test_a_folder_that_modules_are_not_looked_for_in(tmp_path: Path) -> None:
    table = '[tool.scikit-build]\nwheel.install-dir = "pkg"\n'
    (tmp_path / "pyproject.toml").write_text(ARRAY + table, encoding="utf-8")
    extension = Extension(name="k", sources=("a.cpp",))
    for told, origin in (
        ({}, "pyproject.toml [tool.scikit-build]"),
        ({"wheel.install-dir": "pkg"}, "-C wheel.install-dir"),
    ):
        assert problems(tmp_path, extension, config=told) == [
            Problem.of("missing-module/folder", origin=origin, folder="pkg").render()
        ]
    assert errors(plan(tmp_path, extension, config={"wheel.install-dir": "."})) == []
    # All that there is may be left out, where PyTorch has no CUDA.
    assert errors(plan(tmp_path)) == []


def test_a_check_that_there_is_not(tmp_path: Path) -> None:
    assert problems(tmp_path, config={"target": "rtx5070", "skip-check": "wheel-tags"}) == [
        Problem.of(
            "unknown-skip-check",
            origin="-C skip-check",
            ids="wheel-tags",
            nearest="write skip-check=wheel-tag",
        ).render()
    ]


def test_an_error_that_is_skipped_leaves_the_plan_whole(tmp_path: Path) -> None:
    """Such a plan once had no commands, and its build ended with a wheel without modules."""
    config = {"target": "rtx5070", "skip-check": "host-compiler-refused-by-cuda"}
    made = plan(tmp_path, KERNEL, config=config, cxx_version="16.1.0")
    assert [finding.id for finding in errors(made)] == ["host-compiler-refused-by-cuda"]
    assert [str(planned.usual) for planned in made.extensions] == ["12.0"]
    made.stop_on_errors()


@pytest.mark.parametrize(
    ("id", "keywords"),
    [
        ("no-host-compiler", {"host": replace(LINUX, compilers=())}),
        ("torch-without-cuda", {"torch": cpu_torch(), "toolkit": None}),
        ("no-target", {"config": {"skip-check": "no-target"}, "torch_architectures": None}),
    ],
)
def test_an_error_that_leaves_nothing_to_build_is_not_skipped(
    tmp_path: Path, id: str, keywords: dict[str, Any]
) -> None:
    config = {"target": "rtx5070", "skip-check": id}
    made = plan(tmp_path, KERNEL, **{"config": config, **keywords})
    assert made.extensions == ()
    with pytest.raises(TorchwheelError) as caught:
        made.stop_on_errors()
    assert id in [problem.id for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("dependencies", "expected"),
    [
        (["torch>=2.4", "numpy<1"], []),
        (["torch>=2.10,!=2.13.*"], []),
        (["torch<2.10"], ["contradictory-requirements"]),
        (["torch!=2.14.*", "numpy"], ["contradictory-requirements"]),
        (["torch<2.10; python_version < '3'", "torch @ https://example.org/t.whl", 7], []),
        ("torch<2.10", []),
    ],
)
def test_dependencies_that_contradict_the_wheel_are_found_before_the_compile(
    tmp_path: Path, dependencies: object, expected: list[str]
) -> None:
    text = f"[project]\nname = 'k'\ndependencies = {json.dumps(dependencies)}\n"
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    made = plan(tmp_path, replace(KERNEL, sources=("k.cpp",)), torch=cpu_torch(), toolkit=None)
    assert [finding.id for finding in errors(made)] == expected


@pytest.mark.parametrize(
    ("target", "source", "cuda", "beside", "found"),
    [
        ("rtx5070", "a.cpp", False, "k.cu", ["target-without-code"]),
        ("rtx5070", "a.cpp", True, "b.cpp", ["target-without-code"]),
        ("rtx5070", "a.cpp", False, "b.cpp", []),
        ("rtx5070", "k.cu", False, "k.cu", []),
        ("cpu", "a.cpp", True, "k.cu", []),
        ("", "a.cpp", True, "k.cu", []),
    ],
)
def test_a_target_that_no_extension_of_a_setup_py_has_code_for(
    tmp_path: Path, target: str, source: str, cuda: bool, beside: str, found: list[str]
) -> None:
    (tmp_path / beside).touch()
    config = {"target": target} if target else {}
    extension = Extension(name="k", sources=(source,), cuda=cuda)
    project = inputs(tmp_path, extension, config=config, project=str(tmp_path)).project
    vars(project)["torch"] = installed()
    assert [one.id for one in target_without_code(project, [extension])] == found
