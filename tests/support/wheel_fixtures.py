"""Fixtures of samples, and of what nvcc and other build backends make."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from wheel_samples import CUBIN, Entry, Samples, WheelRecipe

LIBRARY = "torch/lib/libtorch_cuda.so"

KERNEL = """
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
extern "C" void launch(float *x, int n) { scale<<<1, 32>>>(x, n); }
"""


@pytest.fixture(scope="session")
def samples() -> Samples:
    return Samples()


@pytest.fixture(scope="session")
def recipe() -> type[WheelRecipe]:
    return WheelRecipe


@pytest.fixture(scope="session")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles the kernel; each set of options once."""
    program = shutil.which("nvcc")
    if program is None:
        pytest.skip("there is no nvcc on PATH")
    folder = tmp_path_factory.mktemp("nvcc")
    (folder / "kernel.cu").write_text(KERNEL, encoding="utf-8")

    def compile_to(name: str, *options: str) -> Path:
        target = folder / name
        if not target.exists():
            command = [program, *options, str(folder / "kernel.cu"), "-o", str(target)]
            subprocess.run(command, check=True, capture_output=True, timeout=300)
        return target

    return compile_to


SCIKIT_BUILD_CORE = """
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "sample"
version = "1.0+cpu"
[tool.scikit-build]
wheel.cmake = false
wheel.packages = ["sample"]
"""

SETUPTOOLS = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "sample"
version = "1.0+cpu"
[tool.setuptools]
packages = ["sample"]
"""


def _project_wheel(folder: Path, pyproject: str, backend: str) -> Path:
    project, out = folder / "projekt ä", folder / "dist"
    (project / "sample").mkdir(parents=True)
    out.mkdir()
    (project / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    (project / "sample" / "__init__.py").write_text("answer = 42\n", encoding="utf-8")
    (project / "sample" / "données.bin").write_bytes(bytes(range(256)) * 400)
    script = f"import {backend} as backend, sys; backend.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", script, str(out)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="session", params=["scikit-build-core", "setuptools", "wheel"])
def foreign_wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel as each of the three backends that PyTorch trees use writes it."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "scikit-build-core":
        return _project_wheel(folder, SCIKIT_BUILD_CORE, "scikit_build_core.build")
    if request.param == "setuptools":
        return _project_wheel(folder, SETUPTOOLS, "setuptools.build_meta")
    return WheelRecipe(files={LIBRARY: Samples().library(Entry(CUBIN, 120))}).write(folder)
