"""A wheel that was built before: from the store where nothing changed, and by ``get`` from a folder of two machines."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from backend.builds import check, clean_environment, make_tree, torchwheel, wrapper
from tree.small_trees import commit_all, git

PROJECT = "work of mine"
INCLUDES_A_PACKAGE_S = """
execute_process(COMMAND ${Python_EXECUTABLE} -c "import packaging; print(packaging.__file__)"
  OUTPUT_VARIABLE _file OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
cmake_path(REPLACE_FILENAME _file py.typed)
target_compile_options(c10 PRIVATE -include ${_file})
"""


def machine(folder: Path, origin: Path, **settings: str) -> tuple[Path, dict[str, str]]:
    """A clone of the tree, a wrapper around it, and an environment with a cache of its own."""
    subprocess.run(["git", "clone", "-q", origin, folder / "tree"], check=True)
    project = wrapper(folder / PROJECT, folder / "tree", **{"build-env": '"current"', **settings})
    return project, clean_environment(folder / "cache")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    tree = make_tree("scikit-build-core", tmp_path / "origin")
    commit_all(tree)
    git(tree, "tag", "v2.14.1")
    return tree


def build(project: Path, environment: dict[str, str], *arguments: str) -> list[str]:
    """Build into ``dist``; what torchwheel itself says."""
    given = arguments if "-o" in arguments else ("-o", str(project / "dist"), *arguments)
    command = torchwheel("build", project, *given)
    lines = check(*command, cwd=project, env=environment).splitlines()
    told = [line for line in lines if line.startswith(("torchwheel: ", "took "))]
    return [re.sub(r"^(took +)\d+ s", r"\1N s", line) for line in told]


@pytest.mark.long
@pytest.mark.parametrize("generation", ["setup.py", "scikit-build-core"])
def test_a_build_of_the_same_is_a_cache_hit(tmp_path: Path, generation: str) -> None:
    tree = make_tree(generation, tmp_path / "tree of mine")
    project = wrapper(tmp_path / PROJECT, tree, **{"build-env": '"current"'})
    environment = clean_environment(tmp_path / "cache")
    build(project, environment)
    (made,) = (project / "dist").glob("*.whl")
    content = made.read_bytes()

    def hit(**more: str) -> bool:
        said = build(project, environment | more, "-o", str(tmp_path / "again"))
        return any("it is taken from the wheel store" in line for line in said)

    assert hit()
    assert (tmp_path / "again" / made.name).read_bytes() == content
    # Another number of jobs makes the same wheel.
    assert hit(MAX_JOBS="1")
    # A variable that some file may read by a name that it computes may not.
    assert not hit(ANY_NAME="1")
    assert hit(ANY_NAME="1")
    # Nor may another source.
    (tree / "torch" / "__init__.py").open("a", encoding="utf-8").write("EDITED = True\n")
    assert not hit(ANY_NAME="1")
    with ZipFile(tmp_path / "again" / made.name) as archive:
        assert b"EDITED = True" in archive.read("torch/__init__.py")


@pytest.mark.long
def test_a_wheel_for_pip_and_one_for_build_are_one(tmp_path: Path) -> None:
    """pip asks for the metadata first, and the wheel must repeat them."""
    tree = make_tree("scikit-build-core", tmp_path / "tree of mine")
    project = wrapper(tmp_path / PROJECT, tree, **{"build-env": '"current"'})
    environment = clean_environment(tmp_path / "cache")
    build(project, environment)

    def by_pip() -> bool:
        options = ("-v", "--no-deps", "--no-build-isolation", "-w", project / "dist")
        command = [sys.executable, "-m", "pip", "wheel", *options, project]
        done = subprocess.run(command, env=environment, text=True, check=True, capture_output=True)
        # What a hook prints is on pip's standard error.
        return "it is taken from the wheel store" in done.stderr

    assert by_pip()
    # The names of its files stay.
    (tree / "pyproject.toml").write_text(
        (tree / "pyproject.toml").read_text(encoding="utf-8").replace("a small source tree", "a small tree"),
        encoding="utf-8",
    )
    assert not by_pip()
    assert by_pip()
    assert any("it is taken from the wheel store" in line for line in build(project, environment))


@pytest.mark.long
@pytest.mark.network
def test_headers_of_packages_that_were_installed_for_it_are_known(tmp_path: Path) -> None:
    """PyTorch's modules include NumPy's."""
    tree = make_tree("scikit-build-core", tmp_path / "tree of mine")
    with (tree / "CMakeLists.txt").open("a", encoding="utf-8") as stream:
        stream.write(INCLUDES_A_PACKAGE_S)
    project = wrapper(tmp_path / PROJECT, tree, **{"build-env": '"managed"'})
    environment = clean_environment(tmp_path / "cache")
    assert not any("it is taken" in line for line in build(project, environment))
    assert any("it is taken from the wheel store" in line for line in build(project, environment))


@pytest.mark.long
def test_a_team_builds_a_plan_once(tmp_path: Path, origin: Path) -> None:
    # What no official wheel has.
    label = ("-C", "local-version=ours")
    first, environment = machine(tmp_path / "first", origin)
    build(first, environment, *label)
    (made,) = (first / "dist").glob("*.whl")
    second, elsewhere = machine(tmp_path / "second", origin)

    def get(environment: dict[str, str], *arguments: str) -> str:
        command = torchwheel(
            "get", second, "--from", first / "dist", "-o", second / "dist", *label, *arguments
        )
        return " ".join(check(*command, cwd=second, env=environment).split())

    # With other flags the same name is another wheel.
    assert "it was built with other options" in get({**elsewhere, "CXXFLAGS": "-DOTHER"}, "--dry-run")
    get(elsewhere)
    assert (second / "dist" / made.name).read_bytes() == made.read_bytes()
    assert not list((tmp_path / "second" / "cache").glob("builds/*/source"))
