"""The door for setup.py with real setuptools and a real PyTorch."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from answered import answered, own_environment
from put import put, put_all

pytestmark = pytest.mark.torch

OPERATOR = """\
#include <Python.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>
namespace {
at::Tensor scale(const at::Tensor& input, double factor) { return at::mul(input, factor); }
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
}
TORCH_LIBRARY(door, library) { library.def("scale(Tensor input, float factor) -> Tensor"); }
TORCH_LIBRARY_IMPL(door, CPU, library) { library.impl("scale", &scale); }
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&definition); }
"""
USE = "import torch, door._C; print(torch.ops.door.scale(torch.ones(3), 2.0).tolist())"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that a kernel author migrated, in a folder with a space and an umlaut."""
    folder = tmp_path / "mein Türchen"
    put_all(folder, {"csrc/op.cpp": OPERATOR, "door/__init__.py": ""})
    return folder


def _environment(tmp_path: Path, further: Mapping[str, str]) -> dict[str, str]:
    own = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "CCACHE_DISABLE": "1"}
    return own_environment(**{**own, **further})


def _run(
    python: str, project: Path, tmp_path: Path, *arguments: str, **further: str
) -> subprocess.CompletedProcess[str]:
    return answered([python, *arguments], cwd=project, env=_environment(tmp_path, further))


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
    put(project / "csrc/op.cpp", f"{module}PyMODINIT_FUNC PyInit__C() {{ return PyModule_Create(&d); }}\n")
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
