"""Which submodules are there, against repositories that the real git makes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from put import put
from torchwheel.tree.git import WrongCommit, is_dirty, missing_submodules, wrong_commits
from tree.small_trees import commit_all, git


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with a submodule of its own."""
    inner = tmp_path / "inner"
    put(inner / "file", "1")
    commit_all(inner)
    outer = tmp_path / "outer"
    put(outer / "file", "1")
    commit_all(outer)
    git(outer, "submodule", "add", str(inner), "external/inner")
    commit_all(outer)
    return outer


@pytest.fixture
def tree(tmp_path: Path, library: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    commit_all(tree)
    git(tree, "submodule", "add", "--name", "third", str(library), "third_party/a library")
    git(tree, "submodule", "update", "--init", "--recursive")
    commit_all(tree)
    return tree


def test_a_clone_without_recursion(tree: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", str(tree), str(clone))
    assert missing_submodules(clone) == ("third_party/a library",)
    git(clone, "submodule", "update", "--init")
    assert missing_submodules(clone) == ("third_party/a library/external/inner",)
    git(clone, "submodule", "update", "--init", "--recursive")
    assert missing_submodules(clone) == ()


def test_one_in_which_nothing_is_checked_out(tree: Path) -> None:
    """As an update leaves it that was interrupted."""
    library = tree / "third_party" / "a library"
    for path in library.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert missing_submodules(tree) == ("third_party/a library",)


def test_what_lies_in_place_of_a_submodule_may_be_anything(tree: Path) -> None:
    """Git does not look into a submodule's folder without ``.git``."""
    library = tree / "third_party" / "a library"
    assert not is_dirty(tree)
    (library / ".git").unlink()
    assert is_dirty(tree)
    shutil.rmtree(library)
    library.mkdir()
    assert not is_dirty(tree)
    git(tree, "rm", "--cached", "-q", "third_party/a library")
    (library / "file").write_text("the tree's own", encoding="utf-8")
    commit_all(tree)
    assert not is_dirty(tree)


def test_an_archive_needs_no_repository(tree: Path) -> None:
    shutil.rmtree(tree / ".git")
    assert missing_submodules(tree) == ()
    shutil.rmtree(tree / "third_party")
    assert missing_submodules(tree) == ("third_party/a library",)


def test_entries_that_do_not_count(tmp_path: Path) -> None:
    (tmp_path / ".gitmodules").write_text(
        """\
[submodule "kept"]
\tpath = "third_party/quo\\"ted"
\turl = path = no
[submodule "optional"]
\tpath = third_party/optional
\tupdate = none
[submodule "outside"]
\tpath = ../elsewhere
[submodule "absolute"]
\tpath = /elsewhere
[submodule "nul"]
\tpath = a\0b
[submodule "empty"]
\turl = https://example.org/empty
[other "section"]
""",
        encoding="utf-8",
    )
    assert missing_submodules(tmp_path) == ('third_party/quo"ted',)


@pytest.mark.timeout(60)
def test_a_submodule_that_is_a_link_has_none_of_its_own(tmp_path: Path) -> None:
    """Two links to the tree itself would be two to the power of forty folders."""
    names = ("a", "b", "c")
    text = "".join(f'[submodule "{name}"]\npath = {name}\n' for name in names)
    (tmp_path / ".gitmodules").write_text(text, encoding="utf-8")
    (tmp_path / "a").symlink_to(".")
    (tmp_path / "b").symlink_to(tmp_path)
    assert (missing_submodules(tmp_path), is_dirty(tmp_path)) == (("c",), False)


def test_a_submodule_at_another_commit(tree: Path) -> None:
    assert wrong_commits(tree) == ()
    folder = tree / "third_party" / "a library"
    recorded = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "--detach", "HEAD~")
    expected = WrongCommit("third_party/a library", recorded, git(folder, "rev-parse", "HEAD"))
    assert wrong_commits(tree) == (expected,)


@pytest.mark.parametrize("submodule", ["", "third_party/a library", "third_party/a library/external/inner"])
def test_a_tree_is_dirty_where_a_submodule_is(tree: Path, submodule: str) -> None:
    (tree / "tracked").write_text("1", encoding="utf-8")
    commit_all(tree)
    (tree / submodule / "new").write_text("not tracked", encoding="utf-8")
    assert not is_dirty(tree)
    (tree / submodule / ("file" if submodule else "tracked")).write_text("edited", encoding="utf-8")
    assert is_dirty(tree)
    assert is_dirty(tree, "tracked") is bool(submodule)
