"""What compilers and git on this machine really print is recognised, colours included."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from torchwheel.diagnosis.scanner import diagnose

needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git on this machine")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")


def cause_of(folder: Path, *command: str) -> str | None:
    """Run a command that fails, and read what it printed."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    assert done.returncode != 0
    cause = diagnose([done.stdout]).cause
    return cause.entry.id if cause else None


@needs_gxx
@pytest.mark.parametrize("colour", ["always", "never"])
@pytest.mark.parametrize(
    ("source", "flags", "expected"),
    [
        ("#include <torch/extension.h>", ["-c"], "header-missing"),
        ("#include <cutlass/cutlass.h>", ["-c"], "header-missing"),
        ("#error You need C++17 to compile PyTorch", ["-c"], "cxx-standard-too-old"),
        (
            "#error -- unsupported GNU version! gcc versions later than 12 are not supported!",
            ["-c"],
            "gcc-too-new-for-cuda",
        ),
        ("int main() {}", ["-lcudart_missing"], "linker-cannot-find-library"),
        ("namespace gloo { void f(); } int main() { gloo::f(); }", [], "gloo-undefined"),
        ("namespace c10d { void f(); } int main() { c10d::f(); }", [], "c10d-unresolved"),
    ],
)
def test_gxx(tmp_path: Path, colour: str, source: str, flags: list[str], expected: str) -> None:
    (tmp_path / "a file.cpp").write_text(source + "\n", encoding="utf-8")
    command = ["g++", f"-fdiagnostics-color={colour}", "a file.cpp", "-o", "out", *flags]
    assert cause_of(tmp_path, *command) == expected


@needs_gxx
def test_ld_with_one_name_twice(tmp_path: Path) -> None:
    for name in ("a.cpp", "b.cpp"):
        (tmp_path / name).write_text("int same() { return 1; }\n", encoding="utf-8")
    assert (
        cause_of(tmp_path, "g++", "-shared", "-fPIC", "a.cpp", "b.cpp", "-o", "out.so") == "duplicate-symbol"
    )


@needs_git
def test_git_and_a_host_that_does_not_exist(tmp_path: Path) -> None:
    address = "https://github.invalid/NVIDIA/nccl.git"
    assert cause_of(tmp_path, "git", "clone", address, "nccl") == "host-not-resolved"


@needs_nvcc
@pytest.mark.nvcc
def test_nvcc_and_an_architecture_that_never_was(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("__global__ void kernel() {}\n", encoding="utf-8")
    command = ["nvcc", "-gencode", "arch=compute_999,code=sm_999", "-c", "a.cu"]
    assert cause_of(tmp_path, *command) == "unsupported-gpu-architecture"
