"""Wheels of projects without setup.py, with a real PyTorch: described by tables, and by a CMakeLists.txt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from answered import answered
from extension.interpreters import module_suffix, wheel_tag
from put import put_all

BIND = """
#include <Python.h>
#ifdef WITH_CUDA
extern "C" int launch(float*, int);
#else
static int launch(float*, int) { return 0; }
#endif
#ifdef GIVEN
#include "given.h"
#endif
static PyObject* answer(PyObject*, PyObject*) { return PyLong_FromLong(FACTOR + launch(nullptr, 0)); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
"""
KERNEL = """
#include <cuda_runtime.h>
#ifdef GIVEN
#include "given.h"
#endif
__global__ void twice(float* p) { p[threadIdx.x] *= 2; }
extern "C" int launch(float* p, int n) { if (n) twice<<<1, n>>>(p); return 40; }
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "torchwheel.extension.backend"
[project]
name = "tiny"
version = "1.2"
"""
TABLE = """
[[tool.torchwheel.extension]]
name = "tiny._C"
sources = ["csrc/*.cpp"]
cuda-sources = ["csrc/*.cu"]
define.FACTOR = 2
"""
SETUP_PY = """
from setuptools import setup
from torchwheel import BuildExtension, CUDAExtension
extension = CUDAExtension(
    "tiny._C", ["csrc/bind.cpp", "csrc/kernel.cu"], define_macros=[("WITH_CUDA", None), ("FACTOR", "4")]
)
setup(name="tiny", version="1.2", packages=["tiny"], ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
"""
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(${SKBUILD_PROJECT_NAME} LANGUAGES CXX)
find_package(TorchWheel 0.1 REQUIRED)
add_library(given INTERFACE)
target_compile_definitions(given INTERFACE GIVEN=1)
target_include_directories(given INTERFACE "include folder")
torchwheel_add_extension(NAME tiny._C SOURCES csrc/*.cpp CUDA_SOURCES csrc/*.cu LINK_FLAGS "-Wl,-rpath,$ORIGIN/own")
target_link_libraries(tiny._C PRIVATE given)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "pro jekt é"
    files = {
        "csrc/bind.cpp": BIND,
        "csrc/kernel.cu": KERNEL,
        "include folder/given.h": "#define FACTOR 3\n",
        "tiny/__init__.py": "from ._C import answer as answer\n",
        "pyproject.toml": PYPROJECT + TABLE,
    }
    put_all(folder, files)
    return folder


class Builder:
    """Calls the backend's hooks with an interpreter that has PyTorch."""

    def __init__(self, python: str, project: Path) -> None:
        self.python = python
        self.project = project
        self.out = project.parent / "out"
        self.out.mkdir()

    def run(self, hook: str, config: dict[str, str]) -> subprocess.CompletedProcess[str]:
        code = (
            f"from torchwheel.extension import backend\nprint(backend.{hook}({str(self.out)!r}, {config!r}))"
        )
        return self.command(self.python, "-c", code)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the project's folder."""
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        kept |= {"TORCHWHEEL_CACHE_DIR": str(self.project.parent / "cache"), "TORCH_NO_COMPILER_WRAPPER": "1"}
        kept["COLUMNS"] = "10000"
        return answered(words, cwd=self.project, env=kept)

    def wheel(self, hook: str = "build_wheel", **config: str) -> tuple[Path, str]:
        """The wheel, and what was printed."""
        done = self.run(hook, config)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.out / done.stdout.splitlines()[-1], done.stdout

    def answer(self, wheel: Path) -> str:
        """What the wheel's module answers when it is used beside PyTorch."""
        unpacked = self.project.parent / f"unpacked {wheel.name}"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        code = f"import sys; sys.path.insert(0, {str(unpacked)!r}); import torch, tiny; print(tiny.answer())"
        return subprocess.check_output([self.python, "-c", code], text=True).strip()


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def images(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("torchwheel.json"))
        return [
            image["label"]
            for library in json.loads(archive.read(name))["machine_code"]
            for image in library["images"]
        ]


@pytest.mark.torch
def test_an_editable_wheel(project: Path, torch_python: str) -> None:
    wheel, _ = Builder(torch_python, project).wheel("build_editable")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info" not in name}
    assert not [name for name in names if name.startswith("tiny/")]
    assert [file.name for file in (project / "tiny").glob("_C*")] == [f"_C{module_suffix(torch_python)}"]


@pytest.mark.torch
def test_a_cmakelists_with_targets_of_its_own(project: Path, cuda_torch_python: str) -> None:
    (project / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (project / "CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
    builder = Builder(cuda_torch_python, project)
    wheel, _ = builder.wheel(**{"cmake.define.TORCHWHEEL_TARGET": "rtx5070"})
    assert wheel.name == f"tiny-1.2+cu130.sm120.torch2.14-{wheel_tag(cuda_torch_python)}.whl"
    assert images(wheel) == ["sm120"]
    assert builder.answer(wheel) == "43"
    with zipfile.ZipFile(wheel) as archive:
        assert b"$ORIGIN/own" in archive.read(f"tiny/_C{module_suffix(cuda_torch_python)}")
    _, second = builder.wheel(target="rtx5070")
    assert "ninja: no work to do." in second


@pytest.mark.torch
@pytest.mark.parametrize("way", ["tables", "cmake", "setup.py"])
def test_uv_builds_an_sdist_and_the_wheel_from_it(project: Path, torch_python: str, way: str) -> None:
    texts = {"pyproject.toml": PYPROJECT + TABLE}
    if way == "cmake":
        texts = {"pyproject.toml": PYPROJECT, "CMakeLists.txt": CMAKE}
    if way == "setup.py":
        script = SETUP_PY.replace(', "csrc/kernel.cu"', "").replace('("WITH_CUDA", None), ', "")
        texts = {"pyproject.toml": PYPROJECT.partition("[project]")[0], "setup.py": script}
    put_all(project, texts)
    builder = Builder(torch_python, project)
    uv = [sys.executable, "-m", "uv", "build", "--no-build-isolation", "--python", torch_python]
    done = builder.command(*uv, "-C", "target=cpu", "-o", str(builder.out))
    assert done.returncode == 0, done.stdout + done.stderr
    out = builder.out
    sdist, wheel = sorted(
        (path for path in out.iterdir() if path.suffix in (".gz", ".whl")), key=lambda p: p.suffix
    )
    assert wheel.name == sdist.name.replace(".tar.gz", f"-{wheel_tag(torch_python)}.whl")
    assert "+cpu.torch2." in wheel.name
