"""The plan for a GB10 (DGX Spark), held against the environment of a user who built PyTorch 2.9 for one.

The independent source is that user's own record, kept as typed in ``tests/replays/attempts/002-5.toml`` (its log beside
it): every variable in it must be planned. What is planned beyond that is torchwheel's own, and is listed with the
source that asks for it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from places import REPLAYS
from plan.planning import GIB, Planner, ids, variables
from torchwheel.host.machine import described_host
from torchwheel.plan.build_plan import Plan
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.cuda_toolkit import assumed_toolkit
from torchwheel.tree.source_tree import Tree

SPARK = described_host(
    "linux_aarch64",
    python_version="3.14.0",
    python_executable="/home/user/venv/bin/python",
    memory_bytes=119 * GIB,
    cores=20,
)

RECORD = read_toml(REPLAYS / "attempts" / "002-5.toml")

# Every export of theirs; + is what the search path had before. CUDA_HOME and PATH stood in the shell's profile.
THEIRS = {
    **RECORD["environment"],
    "LD_LIBRARY_PATH": f"{RECORD['environment']['LD_LIBRARY_PATH']}:+",
    "CUDA_HOME": "/usr/local/cuda",
    "PATH": "/usr/local/cuda/bin:+",
}

# The places in which the parts of PyTorch 2.9's CMake files look for CUDA beside theirs:
# https://github.com/pytorch/pytorch/tree/v2.9.0/cmake/Modules_CUDA_fix and cmake-modules FindCUDAToolkit(7)
CUDA = {
    **dict.fromkeys(
        ("CUDAToolkit_ROOT", "CUDA_BIN_PATH", "CUDA_PATH", "CUDA_TOOLKIT_ROOT"), "/usr/local/cuda"
    ),
    **dict.fromkeys(("CMAKE_CUDA_COMPILER", "CUDACXX"), "/usr/local/cuda/bin/nvcc"),
}

# What else the profile "minimal" switches off (overlays/minimal.toml).
MINIMAL = {
    **dict.fromkeys(
        (
            "USE_GFLAGS",
            "USE_GLOG",
            "USE_GLOO",
            "USE_ITT",
            "USE_MKLDNN",
            "USE_MPI",
            "USE_NNPACK",
            "USE_PYTORCH_QNNPACK",
            "USE_ROCM",
            "USE_TENSORPIPE",
            "USE_VULKAN",
        ),
        "0",
    )
}


def everything(plan: Plan) -> dict[str, str]:
    """The whole environment: theirs, the rest of the profile, CUDA in every place, and the build's own."""
    return {
        **THEIRS,
        **CUDA,
        **MINIMAL,
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_PROJECT_INCLUDE_BEFORE": str(plan.folders.defines_file),
        "DESIRED_CUDA": "13.0",
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_BUILD_VERSION": "2.9.0+cu130.sm121.minimal",
    }


@pytest.fixture
def spark_plan(legacy_plan: Planner, legacy_tree: Tree) -> Plan:
    return legacy_plan(
        {
            "target": "gb10",
            "profile": "minimal",
            "enable": "cudnn",
            "jobs": "4",
            "cuda-path": "/usr/local/cuda",
        },
        tree=replace(legacy_tree, version_text="2.9.0", minimum_cuda="12.0"),
        host=SPARK,
        named=assumed_toolkit("13.0", "linux_aarch64", "/usr/local/cuda"),
    )


def test_every_export_of_theirs_is_planned(spark_plan: Plan) -> None:
    planned = variables(spark_plan)
    assert {name: planned.get(name) for name in THEIRS} == THEIRS
    assert planned == everything(spark_plan)
    assert ids(spark_plan) == []
    assert spark_plan.wheel_name == "torch-2.9.0+cu130.sm121.minimal-cp314-cp314-linux_aarch64.whl"


def test_cuda_reaches_cmake_where_variables_do_not(spark_plan: Plan) -> None:
    assert spark_plan.file_options == {"CUDAToolkit_ROOT", "CUDA_TOOLKIT_ROOT_DIR"}
