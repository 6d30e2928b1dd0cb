"""What holds for every test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is; pytest-timeout catches what never ends.
settings.register_profile("torchwheel", deadline=None)
settings.load_profile("torchwheel")

TESTS = Path(__file__).parent


@pytest.fixture
def plain_path() -> Iterator[Path]:
    """An empty folder without a blank in its path, whatever TMPDIR is: for tools that take no other."""
    place = "/tmp" if os.name == "posix" else None
    with tempfile.TemporaryDirectory(prefix="torchwheel-test-", dir=place) as folder:
        yield Path(folder).resolve()


COMPILING_MARKS = frozenset(
    {"arm", "chaos", "field", "long", "network", "nvcc", "real_tree", "slow", "torch"}
)
COMPILING = (
    "adopt/test_shim.py",
    "backend/",
    "diagnosis/test_judges.py",
    "diagnosis/test_real_builds.py",
    "diagnosis/test_real_tools.py",
    "plan/test_cmake_cache.py::test_a_real_cache_gives_back_what_was_set",
    "engine/test_packing.py::test_cmake_itself_takes_half_a_library_for_installed",
    "engine/test_venv.py",
    "examples/",
    "extension/test_backend.py",
    "extension/test_backend_real.py",
    "extension/test_cpp_extension_compat.py",
    "extension/test_jit.py",
    "extension/test_ninja.py",
    "extension/test_readings.py",
    "extension/test_verify.py",
    "extension/test_setuptools_distribution.py",
    "extension/test_stable_symbols.py",
    "plan/test_forwarding.py",
    "plan/test_shell.py",
    "real_tree/",
    "test_own_distribution.py",
    "toolkit/test_driver_stub.py",
    "verification/test_libraries.py",
    "wheel/test_elf.py::test_where_a_library_looks_for_others",
    "wheel/test_contents.py::test_a_wheel_without_torch",
    "wheel/test_elf.py::test_a_module",
    "wheel/test_rewrite.py::test_pip_installs_it",
)
"""Folders, files and tests that start a compiler or CMake or build a wheel, beside those with such a mark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what compiles, so that ``make unit`` can leave it out."""
    for item in items:
        name = f"{item.path.relative_to(TESTS).as_posix()}::{item.name}"
        if name.startswith(COMPILING) or any(item.get_closest_marker(mark) for mark in COMPILING_MARKS):
            item.add_marker(pytest.mark.compiles)
