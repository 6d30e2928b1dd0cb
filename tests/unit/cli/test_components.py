"""``torchwheel components``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run
from places import MINITORCH
from torchwheel.tree.source_tree import read_tree
from tree.small_trees import write_tree

CMAKE_LISTS = """\
cmake_minimum_required(VERSION 3.27)
project(Torch CXX)
option(USE_CUDA "Use CUDA" ON)
option(WERROR "Build with -Werror." OFF)
cmake_dependent_option(USE_FLASH_ATTENTION "" ON "USE_CUDA OR USE_ROCM;NOT MSVC" OFF)
set(BLAS "Eigen" CACHE STRING "Selected BLAS library")
set(CAFFE2_THIRD_PARTY_ROOT "${PROJECT_SOURCE_DIR}/third_party" CACHE PATH "")
option(USE_DISTRIBUTED "Use distributed" "${LINUX}")
"""

COMPONENTS = """\

Components: --enable NAME, --disable NAME
NAME             DEFAULT   OPTION, AND WHAT IT DOES
cuda             ON        USE_CUDA: Use CUDA
flash-attention  ON        USE_FLASH_ATTENTION: Flash attention kernels; the
                           heaviest files to compile; needs USE_CUDA OR
                           USE_ROCM;NOT MSVC
distributed      ${LINUX}  USE_DISTRIBUTED: Use distributed

"""

OTHERS = """\
Other options: -C define.OPTION=VALUE
OPTION                   DEFAULT           WHAT IT DOES
BLAS                     Eigen             Selected BLAS library
CAFFE2_THIRD_PARTY_ROOT  ${PROJECT_SOU...
WERROR                   OFF               Build with -Werror
"""


@pytest.fixture
def root(here: Path) -> Path:
    root = write_tree(here / "tree").resolve()
    (root / "CMakeLists.txt").write_text(CMAKE_LISTS, encoding="utf-8")
    return root


def test_components_and_how_many_other_options(program: Run, root: Path) -> None:
    result = program("components", "tree")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        f"{root} (2.6.0a0)\n{COMPONENTS}"
        "3 other options can be set with -C define.OPTION=VALUE; --all lists them.\n"
    )


def test_the_other_options_too(torchwheel: Run, root: Path) -> None:
    assert torchwheel("components", "tree", "--all").out == f"{root} (2.6.0a0)\n{COMPONENTS}{OTHERS}"


def test_a_document_has_all_options(torchwheel: Run, root: Path) -> None:
    document = torchwheel("components", "tree", "--json").document("components")
    assert document["tree"] == {"root": str(root), "version": "2.6.0a0"}
    assert len(document["options"]) == 6
    flash = document["options"][1]
    assert (flash["option"], flash["file"], flash["line"]) == ("USE_FLASH_ATTENTION", "CMakeLists.txt", 5)
    assert flash["component"]["name"] == "flash-attention"


def test_the_tree_of_a_wrapper_project(torchwheel: Run, root: Path, here: Path) -> None:
    wrapper = here / "wrapper"
    wrapper.mkdir()
    (wrapper / "pyproject.toml").write_text('[tool.torchwheel]\nsource = "../tree"\n', encoding="utf-8")
    assert torchwheel("components", wrapper, "--json").document("components")["tree"]["root"] == str(root)


def test_every_option_of_minitorch_is_there_once(torchwheel: Run) -> None:
    listed = torchwheel("components", MINITORCH, "--json").document("components")["options"]
    assert sorted(one["option"] for one in listed) == sorted(read_tree(MINITORCH).options)
    text = torchwheel("components", MINITORCH, "--all").out
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_no_tree(torchwheel: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(100 + len(str(here))))
    result = torchwheel("components")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"torchwheel: {here}")
