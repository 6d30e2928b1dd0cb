"""A CUDA wheel on a machine without CUDA: the toolkit comes from PyPI, once."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from backend.builds import check, clean_environment, cmake_cache, make_tree, torchwheel
from torchwheel.toolkit.discover import discover_toolkits
from torchwheel.toolkit.pypi import requirements_for
from torchwheel.wheel.contents import inspect_wheel

pytestmark = [
    pytest.mark.network,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        "TEST_TORCHWHEEL_CUDA_FROM_PYPI" not in os.environ,
        reason="downloads a gigabyte; TEST_TORCHWHEEL_CUDA_FROM_PYPI is not set",
    ),
]


def without_cuda(cache: Path) -> dict[str, str]:
    """An environment whose PATH leads to no nvcc."""
    environment = clean_environment(cache, **{k: v for k, v in os.environ.items() if k.startswith("PIP_")})
    folders = environment["PATH"].split(os.pathsep)
    names = ("nvcc", "nvcc.exe")
    kept = [folder for folder in folders if not any(Path(folder, name).exists() for name in names)]
    return environment | {"PATH": os.pathsep.join(kept)}


def test_minitorch_for_a_gpu_with_everything_from_pypi(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "py torch é")
    cache = tmp_path / "cache"
    environment = without_cuda(cache)
    build = torchwheel("build", tree, "--target", "rtx5070", "--package-version", "2.14.1")
    build += ["-C", "cuda-from=pypi", "-C", "build-env=current", "-C", "cuda=13.0"]
    build += ["--disable", "tests,openmp,mpi,flash-attention", "-o", str(tmp_path / "out")]

    said = check(*build, cwd=tmp_path, env=environment, timeout=1500)
    assert "torchwheel: installing CUDA 13.0 from PyPI" in said
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert wheel.name.startswith("torch-2.14.1+cu130.sm120.noflashattention.nompi.noopenmp-cp3")
    images = {library.path: {i.label for i in library.images} for library in inspect_wheel(wheel).libraries}
    assert {path: labels for path, labels in images.items() if labels} == {
        "torch/lib/libtorch_cuda.so": {"sm120"}
    }
    root = Path(cmake_cache(cache)["CUDAToolkit_ROOT"])
    assert root.parent == cache / "toolkits"
    assert cmake_cache(cache)["CMAKE_CUDA_COMPILER"] == str(root / "bin" / "nvcc")
    (found,) = discover_toolkits({"CUDA_HOME": str(root)}, system_root=tmp_path)
    assert found.version == "13.0"

    again = check(*build, cwd=tmp_path, env=environment, timeout=600)
    assert "installing CUDA" not in again
    hook = f"import torchwheel.backend as b; print(b.get_requires_for_build_wheel({CONFIG!r}))"
    fresh = environment | {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "new")}
    required = check(sys.executable, "-c", hook, cwd=tree, env=fresh).splitlines()[-1]
    assert requirements_for("13.0")[0] in required
    known = check(sys.executable, "-c", hook, cwd=tree, env=environment).splitlines()[-1]
    assert "cuda-toolkit" not in known


CONFIG = {
    "target": "rtx5070",
    "cuda-from": "pypi",
    "cuda": "13.0",
    "build-env": "current",
    "package-version": "2.14.1",
}
