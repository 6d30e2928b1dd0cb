"""The plan for an RTX 5070 on Windows, held against a configuration that users of that card arrived at.

They went through several that failed: code for Ada, which the card cannot run; CUDA 12.4, which does not know
it; command lines longer than Windows takes; parts that have no use or no counterpart there.

The independent source is their last batch file, kept as typed in ``tests/replays/attempts/003-3.toml``: every ``-D`` of
it must be planned but four. What is planned beyond that is torchwheel's own: CUDA's path in the other places that look
for it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from places import REPLAYS
from plan.planning import GIB, Planner, ids, options, variables
from torchwheel.host.machine import described_host
from torchwheel.system.toml import read_toml
from torchwheel.tree.source_tree import Tree

PYTHON = r"C:\build\pytorch\venv\Scripts\python.exe"
CUDA = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.9"

WINDOWS = described_host(
    "win_amd64", python_version="3.11.9", python_executable=PYTHON, memory_bytes=32 * GIB, cores=24
)

RECORD = read_toml(REPLAYS / "attempts" / "003-3.toml")

# Three replace CMake's own flags, /EHsc among them; the fourth PyTorch's cuda.cmake sets itself, to OFF.
LEFT_OUT = {"CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS", "CMAKE_CUDA_FLAGS", "CMAKE_CUDA_ARCHITECTURES"}

# CUDA's folders as CMake spells them, to which a backslash begins an escape.
CUDA_FOR_CMAKE = CUDA.replace("\\", "/")

# Every other -D of their cmake command line; the interpreter's place is this test's.
THEIRS = {
    **{name: value for name, value in RECORD["define"].items() if name not in LEFT_OUT},
    "Python_EXECUTABLE": PYTHON,
    "CUDA_TOOLKIT_ROOT_DIR": CUDA_FOR_CMAKE,
}

# FindCUDAToolkit(7) reads the one, enable_language(CUDA) the other.
ALL = {**THEIRS, "CUDAToolkit_ROOT": CUDA_FOR_CMAKE, "CMAKE_CUDA_COMPILER": f"{CUDA_FOR_CMAKE}/bin/nvcc.exe"}
# From 2.14 on the tree has a job pool for flash attention's kernels.
POOL = {"FLASH_ATTENTION_MAX_JOBS": "2"}

ASKED = {"target": "rtx5070", "cuda-path": CUDA}


@pytest.fixture
def tree_of_the_time(legacy_tree: Tree) -> Tree:
    """PyTorch 2.8, which knows every option of theirs that a release of then has."""
    known = legacy_tree.known_names | {"USE_SYSTEM_PTHREADPOOL"}
    return replace(legacy_tree, version_text="2.8.0", known_names=known)


def test_every_option_of_theirs_is_planned(legacy_plan: Planner, tree_of_the_time: Tree) -> None:
    made = legacy_plan(ASKED, tree=tree_of_the_time, host=WINDOWS)
    planned = options(made)
    assert {name: planned.get(name) for name in THEIRS} == THEIRS
    assert planned == ALL
    assert ids(made) == []
    assert made.wheel_name == "torch-2.8.0+cu129.sm120-cp311-cp311-win_amd64.whl"


def test_every_option_of_theirs_is_planned_for_today_s_trees(plan: Planner, modern_tree: Tree) -> None:
    known = modern_tree.known_names | {"USE_SYSTEM_PTHREADPOOL"}
    made = plan(ASKED, tree=replace(modern_tree, version_text="2.14.1", known_names=known), host=WINDOWS)
    assert options(made) == ALL | POOL
    assert ids(made) == []
    # All but the two that scikit-build-core passes itself go to CMake as they are.
    forwarded = {
        f"cmake.define.{name}": value
        for name, value in (ALL | POOL).items()
        if name not in ("CMAKE_BUILD_TYPE", "Python_EXECUTABLE")
    }
    assert made.inner_config_settings == forwarded | {
        "build-dir": str(made.folders.build),
        "cmake.define.CMAKE_PROJECT_INCLUDE_BEFORE": str(made.folders.defines_file),
        "cmake.build-type": "Release",
    }


def test_the_generator_is_theirs_and_flags_are_added(legacy_plan: Planner, tree_of_the_time: Tree) -> None:
    planned = variables(legacy_plan(ASKED, tree=tree_of_the_time, host=WINDOWS))
    assert planned["CMAKE_GENERATOR"] == "Ninja"
    assert planned["CUDAFLAGS"] == "-allow-unsupported-compiler"


@pytest.mark.parametrize(
    "card", ["rtx5060", "RTX 5070 Ti", "rtx5080", "rtx5090", "RTX 5090 Laptop GPU", "sm120"]
)
def test_what_has_the_same_name_is_built_alike(
    legacy_plan: Planner, tree_of_the_time: Tree, card: str
) -> None:
    mine, other = (
        legacy_plan({**ASKED, "target": name}, tree=tree_of_the_time, host=WINDOWS)
        for name in ("rtx5070", card)
    )
    assert other.wheel_name == mine.wheel_name
    assert (options(other), variables(other)) == (options(mine), variables(mine))
