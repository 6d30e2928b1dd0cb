"""The real PyTorch 2.6.0 sources, configured and partly compiled through setup.py's generation."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from debian_root import SYSTEM, TREE

from debian_system import reason_to_skip

pytestmark = [pytest.mark.real_tree, pytest.mark.timeout(1500)]

OUTSIDE = SYSTEM.root / "src" / "a test"
ENVIRONMENT = {"TORCHWHEEL_CACHE_DIR": "/src/a test/cache", "CCACHE_DIR": "/src/ccache"}

PROJECT = """
[build-system]
requires = ["torchwheel"]
build-backend = "torchwheel.backend"

[tool.torchwheel]
source = "{source}"
target = "cpu"
profile = "minimal"
package-version = "2.6.0"
build-env = "current"
# The tree asks for requests, which nothing in a build from these sources imports.
skip-check = ["build-packages-missing"]

# Debian's libraries replace the vendored ones in this tree.
[tool.torchwheel.define]
USE_SYSTEM_LIBS = true
BLAS = "Generic"
ONNX_NAMESPACE = "onnx"

[tool.torchwheel.env]
GENERIC_BLAS_LIBRARIES = "blas"
CFLAGS = "-O1 -g0 -I/usr -fuse-ld=mold"
CXXFLAGS = "-O1 -g0 -Wno-dangling-reference -I/usr -fuse-ld=mold"
"""

# What the settings above must become, written out by hand: every option of the plan.
ASKED = {
    "BLAS": "Generic",
    "CMAKE_BUILD_TYPE": "Release",
    "ONNX_NAMESPACE": "onnx",
    "Python_EXECUTABLE": "/opt/torchwheel/bin/python3",
    "USE_SYSTEM_LIBS": "ON",
    **dict.fromkeys(
        [
            "BUILD_TEST", "USE_CUDA", "USE_CUDNN", "USE_DISTRIBUTED", "USE_FBGEMM", "USE_FLASH_ATTENTION",
            "USE_GFLAGS", "USE_GLOG", "USE_GLOO", "USE_ITT", "USE_KINETO", "USE_MKLDNN", "USE_MPI", "USE_MPS",
            "USE_NCCL", "USE_NNPACK", "USE_PYTORCH_QNNPACK", "USE_ROCM", "USE_TENSORPIPE", "USE_VULKAN",
            "USE_XNNPACK", "USE_XPU",
        ],
        "OFF",
    ),
}  # fmt: skip
# The system has ccache. What a tree makes of it is its own affair, so these are not among what is proved.
LAUNCHERS = {
    # The tree is not to look for one by itself.
    "USE_CCACHE": "OFF"
}
VERSION = "2.6.0+cpu.minimal.blasgeneric.systemlibraries"
OFF = {"OFF", "0", "FALSE", "NO", ""}


def cached(path: Path) -> dict[str, str]:
    """CMakeCache.txt, read more simply than torchwheel reads it."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"([A-Za-z_0-9]+):[A-Z]+=(.*)", line)
        if match:
            found[match[1]] = match[2]
    return found


def assert_taken(asked: dict[str, str], cache: dict[str, str]) -> None:
    """Every option that was requested has its value in CMake's cache."""
    effective = {
        name: "OFF" if cache.get(name, "absent").upper() in OFF else cache.get(name) for name in asked
    }
    expected = {name: value for name, value in asked.items() if value != "ON"}
    assert {name: effective[name] for name in expected} == expected
    assert {effective[name] for name, value in asked.items() if value == "ON"} <= {"ON", "1", "TRUE"}


def snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file, to prove that a tree was not written to."""
    return {
        str(path.relative_to(root)): (status.st_size, status.st_mtime_ns)
        for path in root.rglob("*")
        if not path.is_dir()
        for status in [path.lstat()]
    }


def project(folder: Path, source: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT.format(source=source), encoding="utf-8")
    return folder


def plan(torchwheel: str, folder: Path) -> dict[str, Any]:
    text = SYSTEM.enter([torchwheel, "plan", "--json"], folder=SYSTEM.inside(folder), environment=ENVIRONMENT)
    document: dict[str, Any] = json.loads(text)
    return document


@pytest.fixture(autouse=True, scope="module")
def fresh_folder() -> None:
    if reason_to_skip() == "":
        shutil.rmtree(OUTSIDE, ignore_errors=True)


def test_setup_py_generation(torchwheel: str) -> None:
    folder = project(OUTSIDE / "setup py", TREE)
    tree = SYSTEM.outside(TREE)
    before = snapshot(tree)

    planned = plan(torchwheel, folder)
    assert planned["tree"]["generation"] == "setup.py"
    assert planned["wheel"] == f"torch-{VERSION}-cp313-cp313-linux_x86_64.whl"
    assert {define["name"]: define["value"] for define in planned["defines"]} == {**ASKED, **LAUNCHERS}

    output = SYSTEM.enter(
        [torchwheel, "build", "--configure-only"], folder=SYSTEM.inside(folder), environment=ENVIRONMENT
    )
    assert f"proved       all {len({**ASKED, **LAUNCHERS})} options" in output
    build = planned["folders"]["build"]
    assert_taken(ASKED, cached(SYSTEM.outside(build) / "CMakeCache.txt"))

    SYSTEM.enter(["cmake", "--build", build, "--target", "c10"], environment=ENVIRONMENT)
    assert (SYSTEM.outside(build) / "lib" / "libc10.so").is_file()
    assert snapshot(tree) == before
