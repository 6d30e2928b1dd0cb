"""Which files of a tree are its source, with git and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from put import put
from torchwheel.tree.source_files import sdist_files, source_files
from torchwheel.tree.source_tree import SOURCE_FACTS_FILE
from tree.small_trees import commit_all, git

SOURCES = {
    ".gitignore",
    "CMakeLists.txt",
    "c10/core/Scalar.cpp",
    "torch/__init__.py",
    "torch/csrc/lazy/generated/README.md",
    "torch/lib/libshm/core.cpp",
}
# What builds of PyTorch leave in the tree.
LEFT = {
    "build/CMakeCache.txt",
    "dist/torch.whl",
    "torch.egg-info/PKG-INFO",
    "torch/_C.cpython-311-x86_64-linux-gnu.so",
    "torch/_C/_VariableFunctions.pyi",
    "torch/__pycache__/init.pyc",
    "torch/bin/torch_shm_manager",
    "torch/csrc/autograd/generated/Functions.cpp",
    "torch/csrc/lazy/generated/LazyIr.h",
    "torch/include/ATen/ATen.h",
    "torch/lib/cmake/fmt/fmt-config.cmake",
    "torch/lib/libc10.so",
    "torch/lib/libcudart.so.12",
    "torch/lib/torch_shm_manager",
    "torch/version.py",
}
GITIGNORE = """build/
dist/
*.egg-info/
__pycache__/
*.so*
*.pyi
torch/bin/
torch/csrc/*/generated/*.[!m]*
torch/include/
torch/lib/cmake
torch/lib/torch_shm_manager
torch/version.py
third_party/nccl/
by_the_tree_alone.txt
"""
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def write(root: Path, names: Iterable[str]) -> None:
    for name in names:
        put(root / name, GITIGNORE if name == ".gitignore" else name)


def repository(root: Path, names: Iterable[str]) -> Path:
    write(root, names)
    commit_all(root)
    return root


def files(root: Path) -> set[str]:
    found = source_files(root).files
    assert list(found) == sorted(set(found))
    return set(found)


def test_what_a_build_left_is_known_by_name_where_there_is_no_git(tmp_path: Path) -> None:
    write(tmp_path, [*SOURCES, *LEFT, ".hg/x", "c10/.venv/x", "builder/build.py"])
    assert files(tmp_path) == SOURCES | {"builder/build.py"}
    assert source_files(tmp_path).checkouts == ()


@needs_git
def test_git_says_what_is_source_where_there_is_one(tmp_path: Path) -> None:
    tree = repository(tmp_path / "ein Baum ü", SOURCES)
    write(tree, [*LEFT, "by_the_tree_alone.txt", "new ü.cpp"])
    (tree / "c10/core/Scalar.cpp").unlink()
    assert files(tree) == SOURCES - {"c10/core/Scalar.cpp"} | {"new ü.cpp"}
    assert source_files(tree).checkouts == ("",)


@needs_git
def test_what_is_tracked_is_source_whatever_its_name_and_new_build_outputs_are_not(tmp_path: Path) -> None:
    tree = repository(tmp_path / "tree", ["build/tracked.txt", "a.cpp"])
    write(tree, ["build/left.o", "torch/version.py", "b.cpp"])
    assert files(tree) == {"build/tracked.txt", "a.cpp", "b.cpp"}


@needs_git
def test_a_clone_that_the_tree_ignores_is_source(tmp_path: Path) -> None:
    """As third_party/nccl, which the build clones where it is not there."""
    tree = repository(tmp_path / "tree", [".gitignore", "a.cpp"])
    repository(tree / "third_party/nccl", ["src/init.cc"])
    assert files(tree) == {".gitignore", "a.cpp", "third_party/nccl/src/init.cc"}


@needs_git
def test_a_submodule_that_is_no_checkout_is_walked(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner", ["lib.cpp"])
    tree = repository(tmp_path / "tree", ["a.cpp"])
    git(tree, "submodule", "add", "-q", inner, "third_party/inner")
    (tree / "third_party/inner/.git").unlink()
    write(tree, ["third_party/inner/__pycache__/x.pyc"])
    assert files(tree) == {".gitmodules", "a.cpp", "third_party/inner/lib.cpp"}


SDIST = {
    ".gitignore": ".env\n/keys/\n*.big\nmade/*\n!made/kept\n",
    "torch/.gitignore": "!needed.big\n/own\n",
    "torch/sub/.gitignore": "!/own\n",
    "keys/.gitignore": "!id\n",
}
HELD = {"CMakeLists.txt", "made/kept", "torch/keys/x", "torch/needed.big", "torch/sub/own", *SDIST} - {
    "keys/.gitignore"
}
IGNORED = {
    ".env",
    "torch/.env",
    "keys/id",
    "keys/.gitignore",
    "data.big",
    "made/x",
    "torch/own",
    "torch/sub/x.big",
}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    root = tmp_path / "around" / "tree é"
    for name in HELD | IGNORED:
        put(root / name, SDIST.get(name, name))
    return root


def held(root: Path, **patterns: list[str]) -> set[str]:
    return set(sdist_files(root, **patterns))


def test_an_sdist_follows_gitignore_with_git_and_without(secrets: Path) -> None:
    assert held(secrets) == HELD
    git(secrets, "init", "-q")
    # The oracle: git lists the same.
    assert held(secrets) == HELD
    git(secrets, "add", "-f", "data.big")
    assert held(secrets) == HELD | {"data.big"}


def test_a_repository_around_a_tree_says_what_to_ignore(secrets: Path) -> None:
    around = secrets.parent
    git(around, "init", "-q")
    (around / ".gitignore").write_text("CMakeLists.txt\n", encoding="utf-8")
    assert held(secrets) == HELD - {"CMakeLists.txt"}
    # A tree that is ignored as a whole is not part of it.
    (around / ".gitignore").write_text("tree*/\nCMakeLists.txt\n", encoding="utf-8")
    assert held(secrets) == HELD


def test_what_an_unpacked_sdist_holds_is_source(secrets: Path) -> None:
    (secrets / SOURCE_FACTS_FILE).write_text("{}", encoding="utf-8")
    assert held(secrets) == HELD | IGNORED | {SOURCE_FACTS_FILE}


def test_include_and_exclude_of_an_sdist(secrets: Path) -> None:
    assert held(secrets, exclude=["torch/", "/CMake*"]) == {".gitignore", "made/kept"}
    assert held(secrets, include=["data.big"], exclude=["*.big"]) == (HELD - {"torch/needed.big"}) | {
        "data.big"
    }
