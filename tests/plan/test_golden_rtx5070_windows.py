"""The plan for an RTX 5070 on Windows, held against a configuration that users of that card arrived at.

They went through several that failed: code for Ada, which the card cannot run; CUDA 12.4, which does not know
it; command lines longer than Windows takes; parts that have no use or no counterpart there.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from plan.planning import GIB, Planner, ids, options, variables
from torchwheel.host.described import described_host
from torchwheel.tree.model import Tree

PYTHON = r"C:\build\pytorch\venv\Scripts\python.exe"
CUDA = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.9"

WINDOWS = described_host(
    "win_amd64", python_version="3.11.9", python_executable=PYTHON, memory_bytes=32 * GIB, cores=24
)

# Every -D of their cmake command line, in its order.
THEIRS = {
    "CMAKE_BUILD_TYPE": "Release",
    "BUILD_SHARED_LIBS": "ON",
    "USE_CUDA": "ON",
    "CUDA_TOOLKIT_ROOT_DIR": CUDA,
    "TORCH_CUDA_ARCH_LIST": "12.0",
    "CMAKE_CUDA_ARCHITECTURES": "120",
    "Python_EXECUTABLE": PYTHON,
    "CMAKE_CUDA_FLAGS": "-allow-unsupported-compiler",
    "CMAKE_CXX_FLAGS": "/MP /O2",
    "CMAKE_C_FLAGS": "/MP /O2",
    "USE_DISTRIBUTED": "OFF",
    "USE_MPI": "OFF",
    "USE_GLOO": "OFF",
    "USE_NCCL": "OFF",
    "USE_OPENMP": "OFF",
    "BUILD_CAFFE2": "OFF",
    "USE_CAFFE2": "OFF",
    "USE_PTHREADPOOL": "OFF",
    "CAFFE2_USE_PTHREADPOOL": "OFF",
    "USE_SYSTEM_PTHREADPOOL": "OFF",
    "CMAKE_C_USE_RESPONSE_FILE_FOR_OBJECTS": "1",
    "CMAKE_CXX_USE_RESPONSE_FILE_FOR_OBJECTS": "1",
    "CMAKE_C_USE_RESPONSE_FILE_FOR_INCLUDES": "1",
    "CMAKE_CXX_USE_RESPONSE_FILE_FOR_INCLUDES": "1",
}

# Everything that is planned, theirs and what torchwheel adds: CUDA's path in the other places that look for it.
ALL = {
    "BUILD_CAFFE2": "OFF",
    "BUILD_SHARED_LIBS": "ON",
    "CAFFE2_USE_PTHREADPOOL": "OFF",
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_CUDA_ARCHITECTURES": "120",
    "CMAKE_CUDA_COMPILER": rf"{CUDA}\bin\nvcc.exe",
    "CMAKE_CUDA_FLAGS": "-allow-unsupported-compiler",
    "CMAKE_CXX_FLAGS": "/MP /O2",
    "CMAKE_CXX_USE_RESPONSE_FILE_FOR_INCLUDES": "1",
    "CMAKE_CXX_USE_RESPONSE_FILE_FOR_OBJECTS": "1",
    "CMAKE_C_FLAGS": "/MP /O2",
    "CMAKE_C_USE_RESPONSE_FILE_FOR_INCLUDES": "1",
    "CMAKE_C_USE_RESPONSE_FILE_FOR_OBJECTS": "1",
    "CUDAToolkit_ROOT": CUDA,
    "CUDA_TOOLKIT_ROOT_DIR": CUDA,
    "Python_EXECUTABLE": PYTHON,
    "TORCH_CUDA_ARCH_LIST": "12.0",
    "USE_CAFFE2": "OFF",
    "USE_CUDA": "ON",
    "USE_DISTRIBUTED": "OFF",
    "USE_GLOO": "OFF",
    "USE_MPI": "OFF",
    "USE_NCCL": "OFF",
    "USE_OPENMP": "OFF",
    "USE_PTHREADPOOL": "OFF",
    "USE_SYSTEM_PTHREADPOOL": "OFF",
}
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
        "cmake.build-type": "Release",
    }


def test_the_installer_s_place_need_not_be_named(legacy_plan: Planner, tree_of_the_time: Tree) -> None:
    made = legacy_plan({"target": "rtx5070", "cuda": "12.9"}, tree=tree_of_the_time, host=WINDOWS)
    assert options(made) == ALL
    assert ids(made) == ["toolkit-assumed"]


def test_the_generator_is_theirs(legacy_plan: Planner, tree_of_the_time: Tree) -> None:
    assert variables(legacy_plan(ASKED, tree=tree_of_the_time, host=WINDOWS))["CMAKE_GENERATOR"] == "Ninja"


@pytest.mark.parametrize(
    ("attempt", "errors"),
    [
        (
            {"cuda-path": CUDA.replace("12.9", "12.4")},
            ["toolkit-outside-range", "toolkit-lacks-architecture"],
        ),
        ({"cuda": "12.4"}, ["no-release-serves"]),
    ],
)
def test_their_first_toolkit_is_refused(
    legacy_plan: Planner, tree_of_the_time: Tree, attempt: dict[str, str], errors: list[str]
) -> None:
    made = legacy_plan({"target": "rtx5070"} | attempt, tree=tree_of_the_time, host=WINDOWS)
    assert [error.id for error in made.errors] == errors


def test_their_first_architecture_is_refused(legacy_plan: Planner, tree_of_the_time: Tree) -> None:
    made = legacy_plan(ASKED | {"arch": "8.9"}, tree=tree_of_the_time, host=WINDOWS)
    assert [error.id for error in made.errors] == ["target-cannot-run"]
