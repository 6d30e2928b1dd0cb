"""Commit and release tag, of repositories that the real git makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from put import put
from torchwheel.host.programs import NoAnswer
from torchwheel.tree import git as module
from torchwheel.tree.git import Checkout, head_commit, is_changed, known_changes, read_checkout, run_git
from tree.small_trees import commit_all, git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "répo with spaces"
    put(folder / "file", "1")
    commit_all(folder)
    return folder


def release_tag(root: Path, commit: str) -> str | None:
    git(root, "checkout", "--detach", commit)
    return read_checkout(root).release_tag


def test_a_folder_inside_a_repository_is_none_itself(repository: Path) -> None:
    inside = repository / "inside"
    inside.mkdir()
    assert read_checkout(inside) == Checkout()
    assert head_commit(inside) is None
    assert run_git(inside, "rev-parse", "HEAD") is None


def test_a_damaged_checkout_does_not_answer_with_the_repository_around_it(repository: Path) -> None:
    inside = repository / "inside"
    (inside / ".git").mkdir(parents=True)
    assert head_commit(inside) is None
    found = read_checkout(inside)
    assert (found.commit, found.release_tag) == (None, None)
    assert "not a git repository" in found.unknown


def test_a_checkout_through_a_link_is_that_checkout(repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(repository)
    assert head_commit(link) == git(repository, "rev-parse", "HEAD")
    (repository / "inside").mkdir()
    link.unlink()
    link.symlink_to(repository / "inside")
    assert run_git(link, "rev-parse", "HEAD") is None


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init")
    assert read_checkout(tmp_path) == Checkout()


def test_a_checkout_of_a_branch_and_of_a_commit(repository: Path) -> None:
    expected = git(repository, "rev-parse", "HEAD")
    assert head_commit(repository) == expected
    git(repository, "pack-refs", "--all")
    assert head_commit(repository) == expected
    git(repository, "checkout", "--detach")
    assert read_checkout(repository) == Checkout(expected)


def test_a_worktree_of_its_own_branch(repository: Path, tmp_path: Path) -> None:
    worktree = tmp_path / "worktree"
    git(repository, "worktree", "add", "-b", "topic", str(worktree))
    expected = commit_all(worktree)
    assert expected != head_commit(repository)
    git(repository, "tag", "v2.6.0", "topic")
    assert read_checkout(worktree) == Checkout(expected, "v2.6.0")
    assert read_checkout(repository).release_tag is None


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
    assert release_tag(repository, f"{commit}~") == "v2.5.9"


def test_the_newest_of_several_and_none_of_a_candidate(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v2.10.0-rc1")
    assert release_tag(repository, commit) is None
    git(repository, "tag", "v2.9.1")
    git(repository, "tag", "v2.10.0")
    assert release_tag(repository, commit) == "v2.10.0"


def test_where_git_is_missing_nothing_is_known_and_it_says_so(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert head_commit(repository) is None
    assert read_checkout(repository) == Checkout(unknown="git cannot be started: No such file or directory")


def test_a_git_that_hangs(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = put(tmp_path / "bin" / "git", "#!/bin/sh\nexec /bin/sleep 60\n", 0o755)
    monkeypatch.setenv("PATH", str(slow.parent))
    monkeypatch.setattr(module, "_MOST_SECONDS", 0.1)
    assert read_checkout(repository) == Checkout(unknown="git took longer than 0.1 seconds")


def test_a_tree_that_another_user_owns_is_read_all_the_same(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v2.6.0")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert read_checkout(repository) == Checkout(commit, "v2.6.0")


def test_a_refusal_is_given_as_the_reason(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setattr(module, "_OPTIONS", ())
    found = read_checkout(repository)
    assert found.commit is None
    assert "dubious ownership" in found.unknown


def test_the_environment_does_not_mislead_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(repository / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository / "nowhere"))
    assert head_commit(repository) == commit


def test_a_commit_that_stands_for_another_does_not_count(repository: Path) -> None:
    """``git replace``: git checks out, and compares with, another commit under the first one's name."""
    commit = git(repository, "rev-parse", "HEAD")
    (repository / "file").write_text("2", encoding="utf-8")
    commit_all(repository)
    other = git(repository, "rev-parse", "HEAD")
    git(repository, "reset", "--hard", commit)
    git(repository, "replace", commit, other)
    git(repository, "reset", "--hard")
    assert ((repository / "file").read_text(encoding="utf-8"), head_commit(repository)) == ("2", commit)
    assert is_changed(repository)


def test_it_writes_nothing(repository: Path) -> None:
    def state() -> dict[Path, int]:
        return {path: path.lstat().st_mtime_ns for path in (repository / ".git").rglob("*")}

    before = state()
    (repository / "file").touch()
    read_checkout(repository)
    assert run_git(repository, "status", "--porcelain") == ""
    assert state() == before


def test_a_changed_file_that_is_tracked(repository: Path) -> None:
    (repository / "new").write_text("1", encoding="utf-8")
    (repository / "file").touch()
    assert not is_changed(repository)
    (repository / "file").write_text("2", encoding="utf-8")
    assert is_changed(repository)
    assert not is_changed(repository, "f*")
    git(repository, "add", "file")
    assert is_changed(repository)
    commit_all(repository)
    assert not is_changed(repository)
    (repository / "file").unlink()
    assert is_changed(repository)
    assert not is_changed(repository.parent)


def test_what_git_cannot_compare_with_its_commit_may_be_changed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index is damaged, or it takes too long on a slow disk; the commit it names at once."""
    with monkeypatch.context() as slow:
        real = module.ask_program
        answer = {"status": NoAnswer("it did not answer")}
        slow.setattr(
            module, "ask_program", lambda command, *rest, **more: _asked(real, answer, command, *rest, **more)
        )
        assert is_changed(repository)
    assert not is_changed(repository)
    (repository / ".git" / "index").write_bytes(b"garbage")
    assert head_commit(repository) is not None
    assert is_changed(repository)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert not is_changed(repository)


def _asked(real: Any, answers: dict[str, Exception], command: list[str], *rest: Any, **more: Any) -> Any:
    if failure := next((answers[word] for word in command if word in answers), None):
        raise failure
    return real(command, *rest, **more)


@pytest.mark.parametrize("key", ["clean", "process"])
def test_no_program_that_a_repository_names_is_run(repository: Path, key: str) -> None:
    ran = repository / "ran"
    (repository / ".gitattributes").write_text("file filter=evil\n", encoding="utf-8")
    commit_all(repository)
    git(repository, "config", f"filter.evil.{key}", f"touch '{ran}'; cat")
    git(repository, "config", "filter.evil.required", "true")
    (repository / "file").write_text("2", encoding="utf-8")
    assert is_changed(repository)
    assert not ran.exists()


def test_without_git_nobody_knows_whether_a_source_was_changed(tmp_path: Path) -> None:
    """What an sdist says of its commit was so when it was made."""
    assert known_changes(tmp_path, dirty=False) is None
    assert known_changes(tmp_path, dirty=True) is True
    (tmp_path / ".git").mkdir()
    assert known_changes(tmp_path, dirty=False) is False
    assert known_changes(tmp_path, dirty=True) is True
