"""The main jobs with whatever the index has today: `make newest`; RELEASES=full builds everything in every way.

Nothing is pinned and every build is isolated, as it is for someone who follows the README for the first time.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Callable
from functools import cache as cache_calls
from pathlib import Path

import pytest

from backend.builds import make_tree, run, wrapper
from places import REPOSITORY
from releases.installing import FULL, Index, pythons
from torchwheel.toolkit.pypi import requirements_for
from torchwheel.versions import major_minor
from torchwheel.wheel.contents import inspect_wheel

pytestmark = [
    pytest.mark.releases,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        sys.platform != "linux", reason="NVIDIA's packages have nvcc for Linux and Windows alone"
    ),
]

TREES = ("setup.py", "scikit-build-core")
EXTENSIONS = ("texture_kernels", "stable_kernel", "own setup.py")
FRONT_ENDS = ("pip", "build", "uv", "torchwheel")
PYTHONS = pythons()
REQUIRED = ["torchwheel", "torch", "setuptools", "scikit-build-core", "cmake", "ninja"]

# One of each project, front end and Python. pip alone installs PyTorch anew for each build, which takes minutes.
_SHORT = [
    ("setup.py", "pip", "3.10", "cpu"),
    ("scikit-build-core", "build", "3.13", "cpu"),
    ("scikit-build-core", "torchwheel", "3.12", "cpu"),
    ("texture_kernels", "uv", "3.12", "rtx5070"),
    ("stable_kernel", "uv", "3.11", "cpu"),
    ("own setup.py", "pip", "3.13", "rtx5070"),
]


def _all_jobs() -> list[tuple[str, str, str, str]]:
    turns = itertools.cycle(PYTHONS)
    trees = [(tree, front, next(turns), "cpu") for tree in TREES for front in FRONT_ENDS]
    extensions = [
        (project, front, next(turns), target)
        for project in EXTENSIONS
        for front in FRONT_ENDS[:-1]
        for target in ("rtx5070", "cpu")
    ]
    return trees + extensions


JOBS = _all_jobs() if FULL else [job for job in _SHORT if job[2] in PYTHONS]

SETUP = """
from setuptools import setup
from torchwheel import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

# Most public projects choose like this.
if CUDA_HOME is None:
    module = CppExtension("plain_ops", ["ops.cpp"])
else:
    module = CUDAExtension("plain_ops", ["ops.cpp", "double.cu"], define_macros=[("WITH_CUDA", None)])
setup(name="plain_ops", version="1.0", ext_modules=[module], cmdclass={"build_ext": BuildExtension})
"""
OPS = """
#include <torch/extension.h>
torch::Tensor twice_cuda(torch::Tensor x);
torch::Tensor twice(torch::Tensor x) {
#ifdef WITH_CUDA
  if (x.is_cuda()) return twice_cuda(x);
#endif
  return x * 2;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
"""
KERNEL = """
#include <torch/types.h>
__global__ void double_all(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
torch::Tensor twice_cuda(torch::Tensor x) {
  auto y = x.clone();
  double_all<<<(y.numel() + 255) / 256, 256>>>(y.data_ptr<float>(), y.numel());
  return y;
}
"""


@pytest.fixture(scope="module")
def resolved(index: Index) -> Callable[[str], dict[str, str]]:
    """What the index has today for a version of Python, asked once; told on failure."""
    return cache_calls(lambda python: index.resolve([*REQUIRED, "pip", "build", "uv"], python))


@pytest.mark.parametrize("python", PYTHONS)
def test_what_the_index_has_today_fits_together(
    python: str, index: Index, resolved: Callable[[str], dict[str, str]]
) -> None:
    """A build environment, and beside it a toolkit of the release of CUDA that PyTorch was built with."""
    found = resolved(python)
    assert index.resolve(requirements_for(major_minor(found["cuda-toolkit"])), python)


@pytest.mark.parametrize(("project", "front_end", "python", "target"), JOBS, ids=map("-".join, JOBS))
def test_build(
    project: str,
    front_end: str,
    python: str,
    target: str,
    index: Index,
    resolved: Callable[[str], dict[str, str]],
    cache: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "a project"
    _make_project(project, folder, target)
    resolved(python)
    tools = ["pip", "build", "uv", *(["torchwheel"] if front_end == "torchwheel" else [])]
    program = index.environment(tmp_path / "front end", PYTHONS[python], tools)
    variables = index.variables(
        cache, TORCHWHEEL_CUDA_FROM="pypi", TORCHWHEEL_TARGET=target, PATH=_path_without_nvcc(program.parent)
    )
    # pip's own cache lies in the home folder, like uv's.
    done = run(
        *_command(front_end, program, folder, tmp_path / "out"), cwd=tmp_path, env=variables, timeout=1500
    )
    assert done.returncode == 0, f"{done.stdout}\n{index.explain()}"

    (wheel,) = (tmp_path / "out").glob("*.whl")
    label = "+cpu" if target == "cpu" else ".sm120"
    assert label in wheel.name, index.explain()
    images = {image.label for library in inspect_wheel(wheel).libraries for image in library.images}
    assert images == (set() if target == "cpu" else {"sm120"}), index.explain()


def _make_project(project: str, folder: Path, target: str) -> None:
    if project in TREES:
        tree = make_tree(project, folder.with_name("a tree"))
        wrapper(folder, tree, target=f'"{target}"')
    elif project == "own setup.py":
        folder.mkdir()
        requires = 'requires = ["torchwheel", "torch", "setuptools"]'
        backend = 'build-backend = "torchwheel.extension.backend"'
        (folder / "pyproject.toml").write_text(f"[build-system]\n{requires}\n{backend}\n", encoding="utf-8")
        (folder / "setup.py").write_text(SETUP, encoding="utf-8")
        (folder / "ops.cpp").write_text(OPS, encoding="utf-8")
        (folder / "double.cu").write_text(KERNEL, encoding="utf-8")
    else:
        shutil.copytree(REPOSITORY / "examples" / project, folder)


def _command(front_end: str, python: Path, project: Path, output: Path) -> list[str]:
    if front_end == "pip":
        return [str(python), "-m", "pip", "wheel", "--no-deps", "-w", str(output), str(project)]
    if front_end == "build":
        return [str(python), "-m", "build", "--wheel", "-o", str(output), str(project)]
    if front_end == "uv":
        uv = python.with_name("uv")
        return [str(uv), "build", "--wheel", "--python", str(python), "-o", str(output), str(project)]
    return [str(python), "-m", "torchwheel.cli.main", "build", str(project), "-o", str(output)]


def _path_without_nvcc(scripts: Path) -> str:
    folders = [folder for folder in os.environ["PATH"].split(os.pathsep) if not Path(folder, "nvcc").exists()]
    return os.pathsep.join([str(scripts), *folders])
