"""The stage's link to git, and what of the outer environment reaches the inner build."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from torchwheel.engine.inner_backend import inner_environment
from torchwheel.engine.workspace import share_git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")

IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str | Path) -> str:
    command = ["git", *IDENTITY, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, encoding="utf-8"
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "a repository"
    root.mkdir()
    git(root, "init", "-q")
    (root / "file").write_text("x", encoding="utf-8")
    git(root, "add", "file")
    git(root, "commit", "-q", "-m", "one")
    return root


def head_in_stage(tree: Path, tmp_path: Path) -> str:
    stage = tmp_path / "the stage"
    stage.mkdir(exist_ok=True)
    share_git(tree, stage)
    return git(stage, "rev-parse", "HEAD")


def test_a_stage_asks_the_tree_s_repository(repository: Path, tmp_path: Path) -> None:
    assert head_in_stage(repository, tmp_path) == git(repository, "rev-parse", "HEAD")


def test_a_worktree_has_a_commit_of_its_own(repository: Path, tmp_path: Path) -> None:
    worktree = tmp_path / "a worktree"
    git(repository, "worktree", "add", "-q", "--detach", worktree)
    (worktree / "file").write_text("y", encoding="utf-8")
    git(worktree, "commit", "-q", "-a", "-m", "two")
    assert head_in_stage(worktree, tmp_path) == git(worktree, "rev-parse", "HEAD")
    assert head_in_stage(repository, tmp_path) == git(repository, "rev-parse", "HEAD")


def test_a_submodule_names_its_repository_by_a_relative_path(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "add", "-q", repository, "inner")
    assert (outer / "inner" / ".git").read_text(encoding="utf-8").startswith("gitdir: ../")
    assert head_in_stage(outer / "inner", tmp_path) == git(repository, "rev-parse", "HEAD")


def test_without_a_repository_there_is_no_link(repository: Path, tmp_path: Path) -> None:
    stage = tmp_path / "the stage"
    stage.mkdir()
    share_git(repository, stage)
    assert (stage / ".git").is_file()
    shutil.rmtree(repository / ".git")
    share_git(repository, stage)
    assert list(stage.iterdir()) == []


def test_the_inner_environment_has_resolved_values_only() -> None:
    outer = {"HOME": "/h", "USE_CUDA": "1", "PATH": "/bin", "PYTHONPATH": "/front/end"}
    inner = inner_environment(
        outer, frozenset({"USE_CUDA", "PYTHONPATH"}), {"USE_CUDA": "0"}, {"PATH": ["/a", "/b"], "NEW": ["/c"]}
    )
    assert inner == {
        "HOME": "/h",
        "USE_CUDA": "0",
        "PATH": os.pathsep.join(["/a", "/b", "/bin"]),
        "NEW": "/c",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }
