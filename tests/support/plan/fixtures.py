"""Trees of both generations and planners for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backend.builds import make_tree
from plan.planning import LINUX, Planner
from torchwheel.host.machine import Host
from torchwheel.tree.source_tree import Tree, read_tree


@pytest.fixture(scope="session")
def modern_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A tree as PyTorch's are from 2.14 on; its version is 2.14.1a0 and it is in no repository."""
    return read_tree(make_tree("scikit-build-core", tmp_path_factory.mktemp("modern") / "minitorch"))


@pytest.fixture(scope="session")
def legacy_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A tree as PyTorch's were up to 2.13, of version 2.6.0a0; its CMake files take CUDA 11.0 and later."""
    tree = read_tree(make_tree("setup.py", tmp_path_factory.mktemp("legacy") / "minitorch"))
    pool = {"FLASH_ATTENTION_MAX_JOBS"}
    return replace(tree, version_text="2.6.0a0", minimum_cuda="11.0", known_names=tree.known_names - pool)


@pytest.fixture
def plan(modern_tree: Tree, tmp_path: Path) -> Planner:
    """Plans with the modern tree."""
    return Planner(modern_tree, tmp_path, tmp_path / "cache")


@pytest.fixture
def legacy_plan(legacy_tree: Tree, tmp_path: Path) -> Planner:
    """Plans with the legacy tree."""
    return Planner(legacy_tree, tmp_path, tmp_path / "cache")


@pytest.fixture(scope="session")
def here() -> Host:
    """A described machine that passes for the one torchwheel runs on."""
    return replace(LINUX, here=True)
