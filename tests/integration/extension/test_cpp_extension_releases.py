"""PyTorch's own cpp_extension of several releases, loaded without PyTorch, up to the commands that it decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from extension import torch_trees
from extension.torch_releases import add_torch_files
from extension.torch_trees import CUDA_LIBRARIES, TorchTree
from toolkit.trees import linux_installation

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(sys.platform != "linux", reason="the toolkit's layout is that of Linux"),
]

RELEASES = ("2.6.0", "2.7.1", "2.9.1", "2.12.0", "2.14.1", "2.15.0")
SETUP = """\
import sys
from setuptools import setup
from torchwheel import BuildExtension, CppExtension, CUDAExtension
assert not [name for name in sys.modules if name.split(".")[0] == "torch"]
setup(
    name="own",
    ext_modules=[CppExtension("host", ["a.cpp"]), CUDAExtension("device", ["a.cpp", "a.cu"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
ARCHITECTURES = [
    "arch=compute_120,code=compute_120",
    "arch=compute_120,code=sm_120",
    "arch=compute_90a,code=sm_90a",
]


@pytest.mark.parametrize("release", RELEASES)
def test_a_setup_py_up_to_its_commands(release: str, tmp_path: Path) -> None:
    site_packages, project = tmp_path / "site-packages", tmp_path / "ein Projekt"
    tree = TorchTree(version=f"{release}+cu130", cuda="13.0", libraries=CUDA_LIBRARIES)
    add_torch_files(torch_trees.install(site_packages, tree), release)
    toolkit = linux_installation(tmp_path / "cuda", "13.0", "13.0.88")
    nvcc = toolkit / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    project.mkdir()
    for name, text in (("setup.py", SETUP), ("a.cpp", ""), ("a.cu", "")):
        (project / name).write_text(text)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    own = {"PYTHONPATH": str(site_packages), "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    own |= {"TORCHWHEEL_CUDA_PATH": str(toolkit), "TORCHWHEEL_ARCH": "9.0a;12.0+PTX"}
    done = subprocess.run(
        [sys.executable, "-m", "torchwheel", "extension", "plan", "--json"],
        cwd=project,
        env={**kept, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "importing PyTorch" not in done.stderr
    planned = json.loads(done.stdout)
    assert [one for one in planned["findings"] if one["severity"] == "error"] == []
    host, device = planned["extensions"]
    assert [step["kind"] for step in host["steps"]] == ["cxx", "link"]
    by_output = {step["output"]: step["command"] for step in device["steps"]}
    assert list(by_output)[:2] == ["objects/a.cpp.o", "objects/a.cu.o"]
    compiling, link = by_output["objects/a.cu.o"], device["steps"][-1]["command"]
    assert compiling[0] == "toolkit/bin/nvcc"
    assert sorted(word.removeprefix("-gencode=") for word in compiling if "arch=" in word) == ARCHITECTURES
    assert {"-DTORCH_EXTENSION_NAME=device", "--expt-relaxed-constexpr"} <= {*compiling}
    assert {"-Ltorch/lib", "-Ltoolkit/lib64", "-lc10_cuda"} <= {*link}
