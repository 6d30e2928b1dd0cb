"""An emulated Debian arm64 system with a compiler, CMake and Python: a DGX Spark's, without its GPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from debian_system import REPOSITORY, DebianSystem, reason_to_skip

SYSTEM = DebianSystem(Path.home() / ".cache" / "torchwheel-arm", foreign="arm64")
PACKAGES = ("cmake", "g++", "make", "ninja-build", "python3-dev")
PLACE = "/srv/on arm"


@pytest.fixture(scope="session")
def system() -> DebianSystem:
    """The system, with the examples beside an empty folder for what is built of them."""
    if "TORCHWHEEL_TEST_ARM" not in os.environ:
        pytest.skip("emulates a machine for an hour; TORCHWHEEL_TEST_ARM is not set")
    if reason := reason_to_skip():
        pytest.skip(reason)
    SYSTEM.make(*PACKAGES)
    place = SYSTEM.outside(PLACE)
    for name in ("examples", "out"):
        shutil.rmtree(place / name, ignore_errors=True)
    shutil.copytree(REPOSITORY / "examples", place / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return SYSTEM


@pytest.fixture(scope="session")
def torchwheel(system: DebianSystem) -> str:
    """torchwheel's command inside, in a virtual environment of its own."""
    return system.install_torchwheel(f"{PLACE}/venv")
