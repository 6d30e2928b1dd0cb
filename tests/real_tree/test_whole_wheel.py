"""The real PyTorch 2.6.0 built in full for an H100, installed and tested: hours. ``make real-wheel`` alone runs it.

What a run that was stopped has compiled is kept, and the next goes on from there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from debian_root import SYSTEM, TREE, listed_code, prepare_cuda
from packaging.requirements import Requirement
from test_real_tree import PROJECT

from debian_system import reason_to_skip

HOW = os.environ.get("TEST_TORCHWHEEL_WHOLE_WHEEL", "")
pytestmark = [pytest.mark.real_tree, pytest.mark.timeout(0)]

FOLDER = SYSTEM.root / "src" / "a whole wheel"
ENVIRONMENT = {
    "TORCHWHEEL_CACHE_DIR": "/src/a whole wheel/cache",
    "CCACHE_DIR": "/src/ccache",
    "PATH": "/opt/whole/bin:/usr/bin:/bin",
}
CONFIG = ["-C", "target=h100", "-C", "profile=minimal", "-C", "disable=cudnn"]
LABEL = "cu124.sm90.minimal.blasgeneric.nocudnn.systemlibraries"
NAME = f"torch-2.6.0+{LABEL}-cp313-cp313-linux_x86_64.whl"
VARIABLES = """
SOVERSION = "2.6"
PYTORCH_VERSION = "2.6.0"
"""
FULL = ("", "", 'CUDAHOSTCXX = "/usr/bin/g++-13"\n')
# The tree's own -O2 comes after what CXXFLAGS asks for, so only a compiler can take it back. ATen's processor kernels
# are compiled once instead of three times, its headers are read once, and nothing is preprocessed for a cache that
# knows none of it.
QUICK = (
    'compiler-cache = "none"\n',
    "CXX_AVX2_FOUND = false\nCXX_AVX512_FOUND = false\nUSE_PRECOMPILED_HEADERS = true\n",
    """
CC = "/opt/quick/gcc"
CXX = "/opt/quick/g++"
CUDAHOSTCXX = "/opt/quick/g++-13"
CUDAFLAGS = "-Xcicc -O1 -Xptxas -O1"
""",
)
"""Settings, CMake's definitions, variables."""

QUICKER = "-O0 --param ggc-min-expand=400 --param ggc-min-heapsize=3000000"
"""The garbage collector of gcc, which takes an eighth of its time, is kept from running; sizes in percent and KiB."""

TEST_PACKAGES = ("numpy<2.3", "pytest==8.3.5", "expecttest", "hypothesis")
"""The tree's conftest.py uses an argument that pytest 9 removed."""

SHOWS_CUDA = """
from unittest import mock

import torch

with mock.patch("torch.cuda.is_available", return_value=True):  # Without a GPU the list is empty.
    print(torch.cuda.get_arch_list())
print(torch.__version__, torch.version.cuda, torch._C._cuda_getArchFlags(), torch.cuda.is_available())
"""
TRAINS = """
import torch

torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x.sum(1, keepdim=True) > 0).float()
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
for step in range(200):
    optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x), y)
    loss.backward()
    optimizer.step()
print("learned", loss.item() < 0.1)
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    if not HOW:
        pytest.skip("compiles for hours; TEST_TORCHWHEEL_WHOLE_WHEEL is not set")
    if reason := reason_to_skip():
        pytest.skip(reason)
    prepare_cuda()
    SYSTEM.install("g++-13")
    make_quick_compilers()
    SYSTEM.install_torchwheel("/opt/whole", "--system-site-packages")
    FOLDER.mkdir(parents=True, exist_ok=True)
    FOLDER.joinpath("pyproject.toml").write_text(project(), encoding="utf-8")
    return FOLDER


def make_quick_compilers() -> None:
    """Write compilers that optimise nothing, unless they are there."""
    for name in ("gcc", "g++", "g++-13"):
        script = SYSTEM.outside(f"/opt/quick/{name}")
        script.parent.mkdir(parents=True, exist_ok=True)
        # Written anew, it would be another compiler, and all be compiled again.
        if not script.exists():
            script.write_text(f'#!/bin/sh\nexec /usr/bin/{name} "$@" {QUICKER}\n', encoding="utf-8")
            script.chmod(0o755)


def project() -> str:
    settings, defines, variables = QUICK if HOW == "quick" else FULL
    text = PROJECT.format(source=TREE).replace('target = "cpu"\nprofile = "minimal"\n', "")
    before, table, after = text.partition("[tool.torchwheel.define]\n")
    return f"{before}{settings}{table}{defines}{after}{VARIABLES}{variables}"


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    pip = ["pip", "wheel", ".", "-v", "--no-deps", "--no-build-isolation", *CONFIG, "-w", "dist"]
    assert SYSTEM.show(pip, folder=SYSTEM.inside(folder), environment=ENVIRONMENT) == 0
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def test_the_wheel_holds_code_for_its_gpu_alone(folder: Path, wheel: Path) -> None:
    assert wheel.name == NAME
    text = SYSTEM.enter(["torchwheel", "inspect", "--json", SYSTEM.inside(wheel)], environment=ENVIRONMENT)
    (found,) = json.loads(text)["inspected"]
    code = {one["path"]: {i["label"]: i["count"] for i in one["images"]} for one in found["libraries"]}
    # cmake/Codegen.cmake of PyTorch 2.6 has RowwiseScaledMM.cu compiled for 9.0a, too, where 9.0 is asked for.
    assert {path: images for path, images in code.items() if images} == {
        "torch/lib/libtorch_cuda.so": {"sm90": 287, "sm90a": 1}
    }
    with zipfile.ZipFile(wheel) as archive:
        library = folder / "libtorch_cuda.so"
        library.write_bytes(archive.read("torch/lib/libtorch_cuda.so"))
    assert listed_code(library) == {("sm_90", "cubin"), ("sm_90a", "cubin")}
    library.unlink()


def fresh_environment(wheel: Path, folder: str) -> str:
    """Make an environment with the wheel, what it asks for and the tree's tests need; return its interpreter."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    required = [Requirement(text) for text in re.findall(r"(?m)^Requires-Dist: (.+)$", metadata)]
    needed = [
        f"{one.name}{one.specifier}"
        for one in required
        if one.marker is None or one.marker.evaluate({"python_version": "3.13", "extra": ""})
    ]
    SYSTEM.enter(["python3", "-m", "venv", "--clear", folder])
    (packages,) = SYSTEM.outside(folder).glob("lib/python3.*/site-packages")
    SYSTEM.unpack(packages, *needed, *TEST_PACKAGES)
    # Without --no-deps: pip sees that nothing is missing.
    SYSTEM.enter([f"{folder}/bin/python", "-m", "pip", "install", "--no-index", SYSTEM.inside(wheel)])
    return f"{folder}/bin/python"


def run_the_trees_tests(python: str) -> None:
    """Run the tree's own tests that need no GPU with an environment's PyTorch, and see that all pass."""
    chosen = ["test_torch.py", "-k", "TestTorch and not cuda"]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    done = SYSTEM.attempt(command, folder=f"{TREE}/test", environment={"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) == 961, done.stdout[-400:]


@pytest.fixture(scope="module")
def fresh(wheel: Path) -> str:
    return fresh_environment(wheel, "/opt/fresh")


def test_it_is_imported_and_trains_without_a_gpu(fresh: str) -> None:
    printed = SYSTEM.enter([fresh, "-c", SHOWS_CUDA + TRAINS], folder="/tmp")
    version = NAME.split("-")[1]
    assert printed.splitlines() == ["['sm_90']", f"{version} 12.4 sm_90 False", "learned True"]


def test_it_passes_the_trees_own_tests(fresh: str) -> None:
    run_the_trees_tests(fresh)


def test_built_again_it_compiles_nothing(folder: Path, wheel: Path) -> None:
    shutil.rmtree(folder / "again", ignore_errors=True)
    command = ["torchwheel", "build", "--json", *CONFIG, "-o", "again"]
    done = SYSTEM.attempt(command, folder=SYSTEM.inside(folder), environment=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    built: dict[str, Any] = json.loads(done.stdout)
    print(f"built again in {built['seconds']:.1f} s")
    assert built["compiled"] == 0
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(folder / "again" / NAME) as second:
        assert {one.filename: one.CRC for one in first.infolist() if "dist-info" not in one.filename} == {
            one.filename: one.CRC for one in second.infolist() if "dist-info" not in one.filename
        }
