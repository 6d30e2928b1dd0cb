"""Which libraries lie in a tree, and what the tree says of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from put import put
from refusals import ids_of
from torchwheel.tree.git import Checkout
from torchwheel.tree.source_files import VendoredLibrary, vendored_libraries
from torchwheel.tree.source_tree import SOURCE_FACTS_FILE, source_facts_json, submodule_states
from tree.small_trees import commit_all, git

LICENCES = """\
The PyTorch repository and source distributions bundle several libraries.

Name: fmt
License: MIT with exception
Files: third_party/fmt,
     third_party/fmt/support/inner
  For details, see: third_party/fmt/LICENSE,
     third_party/fmt/support/inner/LICENSE

Name: gone
License: MIT
Files: third_party/gone, ../outer
  For details, see: third_party/gone/LICENSE
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with a submodule that has one of its own, and a copied library."""
    inner, outer, tree = (tmp_path / name for name in ("inner", "outer", "tree"))
    put(inner / "CMakeLists.txt", "project(inner LANGUAGES CXX VERSION 1.4)")
    commit_all(inner)
    put(outer / "file")
    commit_all(outer)
    git(outer, "submodule", "add", str(inner), "support/inner")
    commit_all(outer)
    git(outer, "tag", "v11.0.2")
    put(tree / "third_party" / "miniz-3.0.2" / "LICENSE", "MIT")
    put(tree / "third_party" / "LICENSES_BUNDLED.txt", LICENCES)
    put(tree / "third_party" / "README.md")
    commit_all(tree)
    git(tree, "submodule", "add", str(outer), "third_party/fmt")
    git(tree, "submodule", "update", "--init", "--recursive")
    commit_all(tree)
    return tree


def expected(tree: Path) -> tuple[VendoredLibrary, ...]:
    inner, outer = (str(tree.parent / name) for name in ("inner", "outer"))
    commits = {name: git(tree.parent / name, "rev-parse", "HEAD") for name in ("inner", "outer")}
    path, licence = "third_party/fmt", "MIT with exception"
    return (
        VendoredLibrary(path, "fmt", "11.0.2", commits["outer"], outer, licence),
        VendoredLibrary(f"{path}/support/inner", "inner", "1.4", commits["inner"], inner, licence),
        VendoredLibrary("third_party/miniz-3.0.2", "miniz", "3.0.2", None, "", None),
    )


def test_submodules_and_copies(tree: Path) -> None:
    assert vendored_libraries(tree) == expected(tree)


def test_an_sdist_remembers_the_commits(tree: Path) -> None:
    before = expected(tree)
    put(tree / SOURCE_FACTS_FILE, source_facts_json(Checkout(), "", submodule_states(tree)).decode())
    for folder in (tree, tree / "third_party/fmt", tree / "third_party/fmt/support/inner"):
        git_folder = folder / ".git"
        shutil.rmtree(git_folder) if git_folder.is_dir() else git_folder.unlink()
    assert vendored_libraries(tree) == before


def test_an_archive_says_what_its_files_say(tmp_path: Path) -> None:
    put(tmp_path / ".gitmodules", '[submodule "a"]\npath = deps/a\nurl = https://example.org/a.git\n')
    assert vendored_libraries(tmp_path) == ()
    put(tmp_path / "deps" / "a" / "VERSION", "2.7.1\n")
    url = "https://example.org/a.git"
    assert vendored_libraries(tmp_path) == (VendoredLibrary("deps/a", "a", "2.7.1", None, url, None),)


@pytest.mark.parametrize(
    "states", ['["a"]', '{"deps/a": 1}', '{"deps/a": {"commit": 1}}', '{"deps/a": {"x": ""}}']
)
def test_facts_of_another_form(tmp_path: Path, states: str) -> None:
    put(tmp_path / ".gitmodules", '[submodule "a"]\npath = deps/a\n')
    put(tmp_path / SOURCE_FACTS_FILE, f'{{"submodules": {states}}}')
    assert ids_of(vendored_libraries, tmp_path) == ["malformed-source-facts"]
