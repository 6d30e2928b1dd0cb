"""Commit and release tag, against repositories that the real git makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.tree.git import git_folders, has_changes, head_commit, release_tag
from tree.small_trees import commit_all, git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "répo with spaces"
    folder.mkdir()
    (folder / "file").write_text("1", encoding="utf-8")
    commit_all(folder)
    return folder


def test_no_repository(tmp_path: Path) -> None:
    assert (git_folders(tmp_path), head_commit(tmp_path), has_changes(tmp_path)) == (None, None, None)
    assert release_tag(tmp_path, "0" * 40) is None


def test_a_folder_inside_a_repository_is_none_itself(repository: Path) -> None:
    inside = repository / "inside"
    inside.mkdir()
    assert head_commit(inside) is None


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init")
    assert head_commit(tmp_path) is None


def test_every_place_where_a_commit_can_be_noted(repository: Path) -> None:
    expected = git(repository, "rev-parse", "HEAD")
    assert head_commit(repository) == expected
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert head_commit(repository) == expected
    git(repository, "checkout", "--detach")
    assert head_commit(repository) == expected


def test_a_worktree_of_its_own_branch(repository: Path, tmp_path: Path) -> None:
    worktree = tmp_path / "worktree"
    git(repository, "worktree", "add", "-b", "topic", str(worktree))
    expected = commit_all(worktree)
    assert expected != head_commit(repository)
    assert head_commit(worktree) == expected
    git(repository, "tag", "v2.6.0", "topic")
    assert (release_tag(worktree, expected), release_tag(repository, head_commit(repository))) == (
        "v2.6.0",
        None,
    )


def test_a_hand_made_reference_cannot_lead_out_of_the_repository(repository: Path) -> None:
    (repository / ".git" / "HEAD").write_text("ref: refs/../../secret\n", encoding="utf-8")
    (repository / "secret").write_text("0" * 40, encoding="utf-8")
    assert head_commit(repository) is None


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize("annotated", [False, True], ids=["lightweight", "annotated"])
def test_a_release_tag(repository: Path, packed: bool, annotated: bool) -> None:
    git(repository, "tag", "v2.5.9")
    commit = commit_all(repository)
    for tag in ("v2.6.0", "v2.6.1-rc3", "v2.6", "w2.7.0", "ciflow/trunk/1"):
        git(repository, "tag", tag, *(["-a", "-m", "a release"] if annotated else []))
    if packed:
        git(repository, "pack-refs", "--all")
    assert release_tag(repository, commit) == "v2.6.0"
    assert release_tag(repository, git(repository, "rev-parse", "HEAD~")) == "v2.5.9"


def test_packed_tags_need_no_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(repository, "tag", "v2.6.0", "-a", "-m", "a release")
    git(repository, "pack-refs", "--all")
    expected = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "")
    assert (head_commit(repository), release_tag(repository, expected)) == (expected, "v2.6.0")


def test_the_newest_of_several_and_none_of_a_candidate(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v2.10.0-rc1")
    assert release_tag(repository, commit) is None
    git(repository, "tag", "v2.9.1")
    git(repository, "tag", "v2.10.0")
    assert release_tag(repository, commit) == "v2.10.0"


def test_a_tag_that_was_moved_after_packing(repository: Path) -> None:
    old = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v2.6.0")
    git(repository, "pack-refs", "--all")
    new = commit_all(repository)
    git(repository, "tag", "-f", "v2.6.0")
    assert (release_tag(repository, old), release_tag(repository, new)) == (None, "v2.6.0")


def test_changes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_changes(repository) is False
    (repository / "untracked").write_text("", encoding="utf-8")
    assert has_changes(repository) is False
    (repository / "file").write_text("22", encoding="utf-8")
    assert has_changes(repository) is True
    monkeypatch.setenv("GIT_DIR", str(repository / "nowhere"))
    assert has_changes(repository) is True
    monkeypatch.setenv("PATH", "")
    assert has_changes(repository) is None
