"""``tools/tree_news.py``: what a tree has and the tables do not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from backend.builds import make_tree
from places import REPOSITORY
from real_tree.debian_root import SYSTEM
from torchwheel.system.paths import is_dir
from torchwheel.tree.source_tree import read_tree

REAL_TREE = SYSTEM.root / "src" / "pytorch"
SPEC = importlib.util.spec_from_file_location("tree_news", REPOSITORY / "tools" / "tree_news.py")
assert SPEC is not None and SPEC.loader is not None
tree_news = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tree_news)
NOTHING = {"options": {}, "variables": {}, "forwarded names": {}, "required tools": {}}


def append(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


@pytest.mark.parametrize("generation", ["scikit-build-core", "setup.py"])
def test_of_a_known_tree_there_are_no_news(generation: str, tmp_path: Path) -> None:
    tree = make_tree(generation, tmp_path / "tree")
    assert tree_news.news(read_tree(tree)) == NOTHING


def test_all_that_is_new_is_listed(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    pyproject = tree / "pyproject.toml"
    text = pyproject.read_text("utf-8").replace(
        '"scikit-build-core>=1.0"', '"scikit-build-core>=1.0", "newtool>=2"'
    )
    pyproject.write_text(text, encoding="utf-8")
    append(tree, "CMakeLists.txt", 'option(USE_NEWS "New" ON)\n')
    append(tree, "CMakeLists.txt", "set(USE_INNER ON)\nif(USE_INNER AND NOT BUILD_READ_ONLY)\nendif()\n")
    append(tree, "cmake/Dependencies.cmake", 'set(x "$ENV{NEW_HOME}")\nfind_package(NewPackage REQUIRED)\n')
    append(tree, "cmake/Dependencies.cmake", "find_program(newc NAMES newcc HINTS /opt)\n")
    append(tree, "tools/setup_helpers/new.py", 'import os\nos.environ.get("NEW_SCRIPT_VARIABLE")\n')
    append(
        tree,
        "cmake/EnvVarForwarding.cmake",
        "set(_ENV_PASSTHROUGH NEW_NAME BLAS)\nset(_ENV_ALIASES NEW_ALIAS=BLAS)\n",
    )
    append(tree, "cmake/forward_environment.py", 'SUFFIXES = ("_NEW",)\n')
    found = {kind: set(names) for kind, names in tree_news.news(read_tree(tree)).items()}
    assert found == {
        "options": {"USE_NEWS", "BUILD_READ_ONLY"},
        "variables": {"NEW_HOME", "NEW_SCRIPT_VARIABLE"},
        "forwarded names": {"NEW_NAME", "NEW_ALIAS", "_NEW"},
        "required tools": {"newtool", "NewPackage", "newcc"},
    }


def test_what_setup_py_forwards_is_read_in_its_dictionaries(tmp_path: Path) -> None:
    tree = make_tree("setup.py", tmp_path / "tree")
    append(
        tree,
        "tools/setup_helpers/cmake.py",
        'additional_options = {"NEW_ONE": "BLAS"}\n'
        'additional_options.update({var: var for var in ("NEW_TWO", "BLAS")})\n'
        'low_priority_aliases = {"NEW_THREE": "BLAS", "CUDACXX": "X"}\n'
        'env.startswith(("BUILD_", "TORCH_")) or env.endswith(("EXITCODE",))\n',
    )
    forwarded = tree_news.news(read_tree(tree))["forwarded names"]
    assert set(forwarded) == {"NEW_ONE", "NEW_TWO", "NEW_THREE", "TORCH_"}


@pytest.mark.skipif(not is_dir(REAL_TREE), reason="the real PyTorch tree was not prepared on this machine")
def test_the_real_tree_forwards_and_reads_nothing_that_is_not_known() -> None:
    found = tree_news.news(read_tree(REAL_TREE))
    assert (found["forwarded names"], set(found["variables"])) == ({}, set())
