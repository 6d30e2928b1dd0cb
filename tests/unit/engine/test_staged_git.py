"""What git answers in a stage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from put import put
from torchwheel.engine import staging
from torchwheel.engine.staging import bring_up_to_date
from tree.small_trees import commit_all, git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "a repository"
    put(root / "file", "x")
    commit_all(root)
    return root


def head_in_stage(tree: Path, tmp_path: Path) -> str:
    stage = tmp_path / "the stage"
    bring_up_to_date(tree, stage, tmp_path / "state.json")
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


@pytest.fixture
def with_submodule(repository: Path, tmp_path: Path) -> Path:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(repository, "tag", "v1")
    git(outer, "submodule", "add", "-q", repository, "third_party/inner")
    git(outer, "commit", "-q", "-m", "outer")
    return outer


def test_a_staged_submodule_answers_for_itself(with_submodule: Path, tmp_path: Path) -> None:
    """Without a .git of its own, git went up to the stage's and answered with PyTorch's commit."""
    original = with_submodule / "third_party" / "inner"
    (original / "new").write_text("z", encoding="utf-8")
    stage = tmp_path / "the stage"
    for _ in range(2):
        bring_up_to_date(with_submodule, stage, tmp_path / "state.json")
    inner = stage / "third_party" / "inner"
    assert sorted(path.name for path in inner.iterdir()) == [".git", "file", "new"]
    assert git(inner, "rev-parse", "HEAD") == git(original, "rev-parse", "HEAD")
    assert (
        git(inner, "describe", "--tags", "--dirty") == git(original, "describe", "--tags", "--dirty") == "v1"
    )
    assert git(inner, "status", "--porcelain") == "?? new"
    assert git(stage, "rev-parse", "HEAD") == git(with_submodule, "rev-parse", "HEAD")


@pytest.mark.parametrize("vendored", [False, True])
def test_a_submodule_that_is_none_any_more_has_no_repository_in_the_stage(
    with_submodule: Path, tmp_path: Path, vendored: bool
) -> None:
    """A build would write down the commit that it was once at."""
    stage, inner = tmp_path / "the stage", with_submodule / "third_party" / "inner"
    bring_up_to_date(with_submodule, stage, tmp_path / "state.json")
    git(with_submodule, "rm", "-q", "third_party/inner")
    # What the build has cloned itself.
    cloned = stage / "third_party" / "cloned"
    git(tmp_path, "clone", "-q", tmp_path / "a repository", cloned)
    if vendored:
        put(inner / "file", "x")
        git(with_submodule, "add", "third_party/inner/file")
    git(with_submodule, "commit", "-q", "-m", "no submodule")
    bring_up_to_date(with_submodule, stage, tmp_path / "state.json")
    assert (stage / "third_party" / "inner").exists() is vendored
    assert not (stage / "third_party" / "inner" / ".git").exists()
    assert git(cloned, "rev-parse", "HEAD") == git(tmp_path / "a repository", "rev-parse", "HEAD")


def test_a_kill_before_a_lost_repository_is_removed_leaves_that_to_the_next_run(
    with_submodule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, state = tmp_path / "the stage", tmp_path / "state.json"
    bring_up_to_date(with_submodule, stage, state)
    git(with_submodule, "rm", "-q", "third_party/inner")
    # A folder that has left the tree leaves the stage with all in it; this one is still there, and empty.
    (with_submodule / "third_party" / "inner").mkdir(parents=True)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(staging, "_remove_lost_checkouts", killed)
        bring_up_to_date(with_submodule, stage, state)
    assert (stage / "third_party" / "inner" / ".git").exists()
    bring_up_to_date(with_submodule, stage, state)
    assert not (stage / "third_party" / "inner").exists()


def test_what_a_build_does_with_git_in_a_staged_submodule_stays_there(
    with_submodule: Path, tmp_path: Path
) -> None:
    original, stage = with_submodule / "third_party" / "inner", tmp_path / "the stage"
    before = git(original, "rev-parse", "HEAD")
    bring_up_to_date(with_submodule, stage, tmp_path / "state.json")
    inner = stage / "third_party" / "inner"
    (inner / "file").write_text("patched", encoding="utf-8")
    git(inner, "commit", "-q", "-a", "-m", "patched by the build")
    git(inner, "checkout", "-q", "HEAD~")
    assert (git(original, "rev-parse", "HEAD"), git(original, "status", "--porcelain")) == (before, "")


def test_without_a_repository_there_is_no_link(repository: Path, tmp_path: Path) -> None:
    stage, state = tmp_path / "the stage", tmp_path / "state.json"
    bring_up_to_date(repository, stage, state)
    assert (stage / ".git").is_file()
    shutil.rmtree(repository / ".git")
    bring_up_to_date(repository, stage, state)
    assert [path.name for path in stage.iterdir()] == ["file"]
