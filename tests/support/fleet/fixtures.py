"""A checkout to make jobs for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from backend.builds import make_tree


def commit_all(folder: Path) -> None:
    """Make a folder a repository of one commit."""
    git = ["git", "-C", str(folder), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A state"]):
        subprocess.run([*git, *words], check=True, env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull})


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that is a PyTorch tree."""
    tree = make_tree("scikit-build-core", tmp_path / "a check out")
    commit_all(tree)
    return tree
