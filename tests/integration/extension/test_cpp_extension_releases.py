"""PyTorch's own cpp_extension of several releases, loaded without PyTorch, up to the commands that it decides."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from answered import answered
from extension import torch_trees
from extension.torch_releases import USUAL, add_torch_files
from extension.torch_trees import CUDA_LIBRARIES, TorchTree
from put import put
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


OPTIONS = """\
from setuptools import setup
from torchwheel import BuildExtension, CUDAExtension
own = CUDAExtension("own", ["a.cpp", "a.cu", "b.cu", "c.cu"], unity=True, source_architectures={"c.cu": "9.0a"})
setup(name="own", ext_modules=[own], cmdclass={"build_ext": BuildExtension})
"""


def planned(tmp_path: Path, release: str, setup: str, architectures: str) -> list[Any]:
    """The extensions of a setup.py in a plan, which has no errors."""
    site_packages, project = tmp_path / "site-packages", tmp_path / "ein Projekt"
    tree = TorchTree(version=f"{release}+cu130", cuda="13.0", libraries=CUDA_LIBRARIES)
    add_torch_files(torch_trees.install(site_packages, tree), release)
    toolkit = linux_installation(tmp_path / "cuda", "13.0", "13.0.88")
    put(toolkit / "bin" / "nvcc", "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n", 0o755)
    project.mkdir()
    for name, text in {"setup.py": setup, **dict.fromkeys(("a.cpp", "a.cu", "b.cu", "c.cu"), "")}.items():
        (project / name).write_text(text)
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    own = {"PYTHONPATH": str(site_packages), "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    own |= {"TORCHWHEEL_CUDA_PATH": str(toolkit), "TORCHWHEEL_ARCH": architectures}
    done = answered([sys.executable, "-m", "torchwheel", "plan", "--json"], cwd=project, env={**kept, **own})
    assert "importing PyTorch" not in done.stderr
    document = json.loads(done.stdout)
    assert [one for one in document["findings"] if one["severity"] == "error"] == []
    extensions: list[Any] = document["extensions"]
    return extensions


def architectures_in(command: list[str]) -> list[str]:
    return sorted(word.removeprefix("-gencode=") for word in command if "arch=" in word)


@pytest.mark.parametrize("release", RELEASES)
def test_a_setup_py_up_to_its_commands(release: str, tmp_path: Path) -> None:
    host, device = planned(tmp_path, release, SETUP, "9.0a;12.0+PTX")
    assert [step["kind"] for step in host["steps"]] == ["cxx", "link"]
    by_output = {step["output"]: step["command"] for step in device["steps"]}
    assert list(by_output)[:2] == ["objects/a.cpp.o", "objects/a.cu.o"]
    compiling, link = by_output["objects/a.cu.o"], device["steps"][-1]["command"]
    assert compiling[0] == "toolkit/bin/nvcc"
    assert architectures_in(compiling) == ARCHITECTURES
    assert {"-DTORCH_EXTENSION_NAME=device", "--expt-relaxed-constexpr"} <= {*compiling}
    assert {"-Ltorch/lib", "-Ltoolkit/lib64", "-lc10_cuda"} <= {*link}


def test_torchwheels_own_options(tmp_path: Path) -> None:
    """A source's own architectures are no other source's, in a unity file neither."""
    (own,) = planned(tmp_path, USUAL, OPTIONS, "9.0;12.0")
    found = {tuple(one["sources"]): one for one in own["steps"] if one["kind"] == "cuda"}
    assert architectures_in(found["c.cu",]["command"]) == ["arch=compute_90a,code=sm_90a"]
    joined = found["a.cu", "b.cu"]
    assert architectures_in(joined["command"]) == [
        "arch=compute_120,code=sm_120",
        "arch=compute_90,code=sm_90",
    ]
    assert joined["output"] == "objects/unity/unity-0.cu.o"
