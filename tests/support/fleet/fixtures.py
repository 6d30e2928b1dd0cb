"""A checkout to make jobs for."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend.builds import make_tree
from tree.small_trees import commit_all


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that is a PyTorch tree."""
    tree = make_tree("scikit-build-core", tmp_path / "a check out")
    commit_all(tree)
    return tree
