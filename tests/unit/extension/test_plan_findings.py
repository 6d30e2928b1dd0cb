"""What is wrong with a build of extensions is told before it starts, all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extension.planning import CUDA_13, LINUX, cpu_torch, errors, inputs, installed, plan
from refusals import ids_of
from torchwheel.extension.extension_plan import Extension
from torchwheel.extension.options import target_without_code
from torchwheel.host.machine import Compiler

KERNEL = Extension(name="k", sources=("k.cu",), origin="pyproject.toml, extension k")
PLAIN = Extension(name="k", sources=("a.cpp",), origin="pyproject.toml, extension k")
ROCM = installed(version="2.14.1+rocm7.0", cuda=None, hip="7.0.1")
TARGET = {"target": "rtx5070"}


@pytest.mark.parametrize(
    ("extension", "keywords", "ids"),
    [
        (KERNEL, {"torch": cpu_torch(), "toolkit": None}, ["torch-without-cuda"]),
        (KERNEL, {"torch": cpu_torch(), "toolkit": None, "config": {}, "torch_architectures": None},
         ["torch-without-cuda"]),
        (KERNEL, {"torch": ROCM, "toolkit": None}, ["torch-for-rocm"]),
        (KERNEL, {"config": {"target": "cpu"}, "torch_architectures": None}, ["cpu-target-with-cuda-sources"]),
        # setuptools links it; deepspeed has such modules for what a machine does not support.
        (replace(PLAIN, sources=()), {}, []),
        (PLAIN, {"host": replace(LINUX, compilers=())}, ["no-host-compiler"]),
        (PLAIN, {"host": replace(LINUX, compilers=(Compiler("cxx", "gcc", "g++-99", "99", ""),))},
         ["no-host-compiler"]),
        (PLAIN, {"unanswered": {"/usr/bin/c++": "it took longer than 10 seconds"}}, ["host-compiler-does-not-work"]),
        (KERNEL, {"unanswered": {"/usr/local/cuda-13.0/bin/nvcc": "it ended with status 3"}}, ["nvcc-does-not-work"]),
        (KERNEL, {"config": {}, "torch_architectures": None}, ["no-target"]),
        (replace(PLAIN, stable_abi="2.15"), {}, ["stable-abi-too-new"]),
        (replace(PLAIN, stable_abi="2.8"), {}, ["stable-abi-too-old"]),
        (replace(PLAIN, stable_abi="latest"), {"torch": installed(has_headers=False)},
         ["malformed-stable-abi", "torch-without-headers"]),
        (KERNEL, {"config": {**TARGET, "skip-check": "wheel-tags"}}, ["unknown-skip-check"]),
        (replace(KERNEL, stable_abi="2.15"),
         {"host": replace(LINUX, compilers=()), "torch": cpu_torch(), "toolkit": None},
         ["no-host-compiler", "stable-abi-too-new", "torch-without-cuda"]),
    ],
)  # fmt: skip
def test_all_that_is_wrong_is_told_at_once(
    tmp_path: Path, extension: Extension, keywords: dict[str, Any], ids: list[str]
) -> None:
    made = plan(tmp_path, extension, **{"config": TARGET, **keywords})
    assert sorted(finding.id for finding in errors(made)) == ids
    assert bool(made.extensions) is not bool(ids)


def test_an_error_that_is_skipped_leaves_the_plan_whole(tmp_path: Path) -> None:
    """Such a plan once had no commands, and its build ended with a wheel without modules."""
    config = {"target": "rtx5070", "skip-check": "nvcc-does-not-work"}
    made = plan(tmp_path, KERNEL, config=config, unanswered={CUDA_13.nvcc: "it ended with status 3"})
    assert [finding.id for finding in errors(made)] == ["nvcc-does-not-work"]
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
    assert id in ids_of(made.stop_on_errors)


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
