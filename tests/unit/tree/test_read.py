"""From a path to a described tree, and what is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import shlex
from pathlib import Path

import pytest

from put import put
from refusals import error_of, ids_of
from torchwheel.cli.adopt import adopt
from torchwheel.tree.cmake_options import Option
from torchwheel.tree.source_tree import SOURCE_FACTS_FILE, Generation, Tree, read_tree, source_facts_json
from tree.small_trees import SCIKIT_BUILD_CORE_PYPROJECT, commit_all, git, write_tree

CLONE = "git clone --recursive https://github.com/pytorch/pytorch"
OPTIONS = {
    "USE_CUDA": Option("USE_CUDA", "BOOL", "Use CUDA", "ON", "", "CMakeLists.txt", 4),
    "USE_CUDNN": Option("USE_CUDNN", "BOOL", "Use cuDNN", "ON", "USE_CUDA", "CMakeLists.txt", 6),
    "USE_DISTRIBUTED": Option("USE_DISTRIBUTED", "BOOL", "Use distributed", "ON", "", "CMakeLists.txt", 5),
}


def test_a_setup_py_tree(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "ein Baum é")
    tree = read_tree(root)
    assert tree == Tree(
        root=root.resolve(),
        name="torch",
        version_text="2.6.0a0",
        generation=Generation.SETUP_PY,
        backend="setuptools.build_meta:__legacy__",
        backend_path=(),
        requires=("setuptools", "numpy"),
        options=OPTIONS,
        known_names=tree.known_names,
        minimum_cuda=None,
        minimum_cmake="3.27",
        commit=None,
        release_tag=None,
        missing_submodules=(),
        adopted=False,
        identity=hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16],
    )
    assert {"USE_CUDA", "USE_CUDNN", "USE_DISTRIBUTED", "Torch"} < tree.known_names


@pytest.mark.parametrize(
    ("script", "metadata", "version"),
    [
        ("PKG-INFO", "Name: torch\nVersion: 2.15.0\n", ("2.15.0", "PKG-INFO")),
        ("PKG-INFO", "Name: torch\nVersion: 2.15.0+cu130\n", ("2.15.0", "PKG-INFO")),
        ("PKG-INFO", "Name: torch\nVersion: no version\n", ("2.6.0a0", "version.txt")),
        ("PKG-INFO", None, ("2.6.0a0", "version.txt")),
        # Scripts before 2.9 do not read it.
        ("version.txt", "Name: torch\nVersion: 2.15.0\n", ("2.6.0a0", "version.txt")),
    ],
)
def test_the_version_follows_the_tree_s_own_rule(
    script: str, metadata: str | None, version: tuple[str, str], tmp_path: Path
) -> None:
    root = write_tree(tmp_path / "t")
    put(root / "tools" / "generate_torch_version.py", f'FILE = "{script}"\n')
    if metadata is not None:
        (root / "PKG-INFO").write_text(metadata, encoding="utf-8")
    tree = read_tree(root)
    assert (tree.version_text, tree.version_file) == version


def test_a_scikit_build_core_tree(tmp_path: Path) -> None:
    tree = read_tree(write_tree(tmp_path / "t", SCIKIT_BUILD_CORE_PYPROJECT))
    assert (tree.generation, tree.backend) == (Generation.SCIKIT_BUILD_CORE, "scikit_build_core.build")
    assert tree.requires == ("scikit-build-core>=1.0", "numpy")


@pytest.mark.parametrize("pyproject", [None, "", "[tool.black]\nline-length = 88\n"])
def test_without_a_build_system_it_is_setuptools(tmp_path: Path, pyproject: str | None) -> None:
    tree = read_tree(write_tree(tmp_path / "t", pyproject))
    assert (tree.generation, tree.backend) == (Generation.SETUP_PY, "setuptools.build_meta:__legacy__")
    assert tree.requires == ("setuptools>=40.8.0",)


def test_an_adopted_tree_names_its_own_backend(tmp_path: Path) -> None:
    pyproject = """\
[build-system]
requires = ["setuptools"]
build-backend = "torchwheel_shim"
backend-path = ["backend"]

[tool.torchwheel.adopted]
build-backend = "setuptools.build_meta"
backend-path = ["tools"]
"""
    tree = read_tree(write_tree(tmp_path / "t", pyproject))
    assert (tree.adopted, tree.generation, tree.backend, tree.backend_path) == (
        True,
        Generation.SETUP_PY,
        "setuptools.build_meta",
        ("tools",),
    )


@pytest.mark.parametrize(
    ("pyproject", "ids"),
    [
        ('[build-system]\nrequires = []\nbuild-backend = "torchwheel_shim"\n', ["damaged-adoption"]),
        ('[build-system]\nrequires = []\nbuild-backend = "mesonpy"\n', ["unsupported-backend"]),
        ('[build-system]\nrequires = "setuptools"\nbackend-path = [1]\n', ["ill-typed-build-system"] * 2),
        # pip and the tree's own backend would refuse a byte order mark, after the plan.
        ("\ufeff" + SCIKIT_BUILD_CORE_PYPROJECT, ["malformed-toml"]),
    ],
)
def test_a_build_system_that_is_refused(tmp_path: Path, pyproject: str, ids: list[str]) -> None:
    assert ids_of(read_tree, write_tree(tmp_path / "t", pyproject)) == ids


def test_what_is_no_tree(tmp_path: Path) -> None:
    file, other = tmp_path / "pytorch.tar.gz", tmp_path / "other"
    file.write_bytes(b"")
    put(other / "setup.py")
    found = [ids_of(read_tree, path) for path in (tmp_path / "nowhere", file, other)]
    assert found == [["source-missing"], ["source-not-a-folder"], ["not-pytorch"]]


def test_the_command_that_fills_an_empty_folder_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "my tree"
    folder.mkdir()
    (problem,) = error_of(read_tree, folder).problems
    command = problem.remedy.splitlines()[-1]
    assert (problem.id, shlex.split(command)) == ("source-empty", [*CLONE.split(), str(folder)])


def test_commit_and_release_tag(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t")
    commit = commit_all(root)
    git(root, "tag", "-a", "-m", "release", "v2.6.0")
    tree = read_tree(root)
    assert (tree.commit, tree.release_tag, tree.commit_unknown) == (commit, "v2.6.0", "")


def test_a_tree_with_changed_files_is_dirty_but_not_by_adopting_it(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t")
    commit_all(root)
    assert not read_tree(root).dirty
    adopt(root)
    assert not read_tree(root).dirty
    (root / "CMakeLists.txt").write_text("# USE_CUDA", encoding="utf-8")
    assert read_tree(root).dirty


def test_source_facts_stand_in_for_git(tmp_path: Path) -> None:
    tree = read_tree(write_tree(tmp_path / "t"))
    tagged = dataclasses.replace(
        tree, commit="f" * 40, release_tag="v2.6.0", dirty=True, identity="of the checkout"
    )
    (tree.root / SOURCE_FACTS_FILE).write_bytes(source_facts_json(tagged, tagged.identity))
    assert read_tree(tree.root) == tagged
    commit = commit_all(tree.root)
    again = read_tree(tree.root)
    assert (again.commit, again.release_tag, again.identity) == (commit, None, tree.identity)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"commit": 1}', b'{"dirty": 1}', b"\xff", b"[" * 50_000])
def test_malformed_source_facts(tmp_path: Path, content: bytes) -> None:
    root = write_tree(tmp_path / "t")
    (root / SOURCE_FACTS_FILE).write_bytes(content)
    assert ids_of(read_tree, root) == ["malformed-source-facts"]
