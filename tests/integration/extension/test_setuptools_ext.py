"""The door for setup.py with real setuptools and a real PyTorch."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from extension.interpreters import module_suffix, wheel_tag

pytestmark = pytest.mark.torch

OPERATOR = """\
#include <Python.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>
#ifdef WITH_CUDA
void scale_cuda(const float* from, float* to, long count, float factor, void* stream);
#endif
namespace {
at::Tensor scale(const at::Tensor& input, double factor) { return at::mul(input, factor); }
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
}
TORCH_LIBRARY(door, library) { library.def("scale(Tensor input, float factor) -> Tensor"); }
TORCH_LIBRARY_IMPL(door, CPU, library) { library.impl("scale", &scale); }
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""
KERNEL = """\
#include <cuda_runtime.h>
__global__ void scale_kernel(const float* from, float* to, long count, float factor) {
  const long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
  if (i < count) to[i] = from[i] * factor;
}
void scale_cuda(const float* from, float* to, long count, float factor, void* stream) {
  scale_kernel<<<(count + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(from, to, count, factor);
}
"""
SETUP = """\
from setuptools import setup
from torchwheel import BuildExtension, {function}

setup(
    name="door",
    version="1.2",
    packages=["door"],
    ext_modules=[{function}("door._C", {sources}, extra_compile_args={{"cxx": ["-O1"]}})],
    cmdclass={{"build_ext": BuildExtension}},
)
"""
USE = "import torch, door._C; print(torch.ops.door.scale(torch.ones(3), 2.0).tolist())"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that a kernel author migrated, in a folder with a space and an umlaut."""
    folder = tmp_path / "mein Türchen"
    for path, text in (("csrc/op.cpp", OPERATOR), ("csrc/k.cu", KERNEL), ("door/__init__.py", "")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def _environment(tmp_path: Path, further: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TORCHWHEEL_", "TORCH_"))
    }
    return {**kept, "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "CCACHE_DISABLE": "1", **further}


def _run(
    python: str, project: Path, tmp_path: Path, *arguments: str, **further: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments],
        cwd=project,
        env=_environment(tmp_path, further),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_wheel_for_a_named_gpu_from_a_machine_without_one(
    project: Path, cuda_torch_python: str, tmp_path: Path
) -> None:
    sources = ["csrc/op.cpp", "csrc/k.cu"]
    (project / "setup.py").write_text(
        SETUP.format(function="CUDAExtension", sources=sources), encoding="utf-8"
    )
    built = _run(
        cuda_torch_python,
        project,
        tmp_path,
        *("-m", "pip", "wheel", ".", "--no-build-isolation", "--no-deps", "-w", str(tmp_path / "dist")),
        TORCHWHEEL_TARGET="rtx5070",
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name == f"door-1.2+cu130.sm120.torch2.14-{wheel_tag(cuda_torch_python)}.whl"
    with zipfile.ZipFile(wheel) as archive:
        info = "door-1.2+cu130.sm120.torch2.14.dist-info"
        metadata = archive.read(f"{info}/METADATA").decode()
        manifest = json.loads(archive.read(f"{info}/torchwheel.json"))
        names = {name for name in archive.namelist() if not name.startswith(info)}
    assert names == {"door/__init__.py", f"door/_C{module_suffix(cuda_torch_python)}"}
    assert "Version: 1.2+cu130.sm120.torch2.14\n" in metadata
    assert "Requires-Dist: torch<2.15,>=2.14\n" in metadata
    assert manifest["machine_code"] == [
        {
            "library": f"door/_C{module_suffix(cuda_torch_python)}",
            "images": [
                {**manifest["machine_code"][0]["images"][0], "label": "sm120", "kind": "sass", "count": 1},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (
            "from torchwheel import CppExtension; from torch.utils.cpp_extension import BuildExtension",
            '{"build_ext": BuildExtension}',
        ),
        (
            "from torchwheel import BuildExtension; from torch.utils.cpp_extension import CppExtension",
            '{"build_ext": BuildExtension}',
        ),
    ],
)
def test_a_mixture_with_torchs_own_is_built_for_the_target(
    project: Path, torch_python: str, tmp_path: Path, line: str, command: str
) -> None:
    (project / "setup.py").write_text(
        f"from setuptools import setup\n{line}\n"
        f'setup(name="door", ext_modules=[CppExtension("door._C", ["csrc/op.cpp"])], cmdclass={command})\n'
    )
    built = _run(torch_python, project, tmp_path, "setup.py", "build_ext", "--inplace")
    assert built.returncode == 0, built.stderr
    assert "compile csrc/op.cpp" in built.stdout
    assert _run(torch_python, project, tmp_path, "-c", USE).stdout == "[2.0, 2.0, 2.0]\n"


def test_pytorchs_own_tutorial(project: Path, torch_python: str, tmp_path: Path) -> None:
    """A plain Extension of setuptools: it was built without PyTorch's macros."""
    (project / "setup.py").write_text(
        "from setuptools import Extension, setup\n"
        "from torchwheel import BuildExtension, include_paths, library_paths\n"
        'own = Extension("door._C", ["csrc/op.cpp"], include_dirs=include_paths(), language="c++",\n'
        '                library_dirs=library_paths(), libraries=["c10", "torch", "torch_cpu"])\n'
        'setup(name="door", ext_modules=[own], cmdclass={"build_ext": BuildExtension})\n'
    )
    built = _run(torch_python, project, tmp_path, "setup.py", "build_ext", "--inplace")
    assert built.returncode == 0, built.stderr
    assert _run(torch_python, project, tmp_path, "-c", USE).stdout == "[2.0, 2.0, 2.0]\n"


def test_a_target_version_macro_is_the_stable_abi(
    project: Path, cuda_torch_python: str, tmp_path: Path
) -> None:
    """The wheel required one release and one Python, although it runs with others."""
    module = '#include <Python.h>\nstatic PyModuleDef d = {PyModuleDef_HEAD_INIT, "_C"};\n'
    (project / "csrc/op.cpp").write_text(
        f"{module}PyMODINIT_FUNC PyInit__C() {{ return PyModule_Create(&d); }}\n"
    )
    flags = 'extra_compile_args={"cxx": ["-DTORCH_TARGET_VERSION=0x020a000000000000"]}'
    (project / "setup.py").write_text(
        "from setuptools import setup\nfrom torchwheel import BuildExtension, CppExtension\n"
        f'own = CppExtension("door._C", ["csrc/op.cpp"], py_limited_api=True, {flags})\n'
        'setup(name="door", version="1", packages=["door"], ext_modules=[own], '
        'cmdclass={"build_ext": BuildExtension}, options={"bdist_wheel": {"py_limited_api": "cp310"}})\n'
    )
    built = _run(cuda_torch_python, project, tmp_path, "setup.py", "bdist_wheel", TORCHWHEEL_TARGET="cpu")
    assert built.returncode == 0, built.stderr
    (wheel,) = (project / "dist").iterdir()
    assert wheel.name.startswith("door-1+cpu-cp310-abi3-")
    with zipfile.ZipFile(wheel) as archive:
        assert b"Requires-Dist: torch>=2.10\n" in archive.read("door-1+cpu.dist-info/METADATA")
