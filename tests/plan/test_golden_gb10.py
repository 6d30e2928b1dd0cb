"""The plan for a GB10 (DGX Spark), held against the environment of a user who built PyTorch 2.9 for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plan.planning import GIB, Planner, finding, ids, variables
from torchwheel.host.described import described_host
from torchwheel.plan.model import Plan
from torchwheel.toolkit.read import assumed_toolkit
from torchwheel.tree.model import Tree

SPARK = described_host(
    "linux_aarch64",
    python_version="3.14.0",
    python_executable="/home/user/venv/bin/python",
    memory_bytes=119 * GIB,
    cores=20,
)

# Every export of theirs; + is what the search path had before.
THEIRS = {
    "CUDA_HOME": "/usr/local/cuda",
    "PATH": "/usr/local/cuda/bin:+",
    "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:+",
    "USE_CUDA": "1",
    "USE_CUDNN": "1",
    "TORCH_CUDA_ARCH_LIST": "12.1",
    "MAX_JOBS": "4",
    "USE_NCCL": "0",
    "USE_FLASH_ATTENTION": "0",
    "USE_XNNPACK": "0",
    "USE_FBGEMM": "0",
    "USE_KINETO": "0",
    "USE_DISTRIBUTED": "0",
    "BUILD_TEST": "0",
}


def everything(plan: Plan) -> dict[str, str]:
    """The whole environment: theirs, the rest of the profile, CUDA in every place, and the build's own folders."""
    return {
        "BLAS": "OpenBLAS",
        "BUILD_TEST": "0",
        "CCACHE_BASEDIR": str(plan.folders.root),
        "CCACHE_NOHASHDIR": "1",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CUDA_COMPILER": "/usr/local/cuda/bin/nvcc",
        "CMAKE_PROJECT_INCLUDE_BEFORE": str(plan.folders.defines_file),
        "CUDACXX": "/usr/local/cuda/bin/nvcc",
        "CUDAToolkit_ROOT": "/usr/local/cuda",
        "CUDA_BIN_PATH": "/usr/local/cuda",
        "CUDA_HOME": "/usr/local/cuda",
        "CUDA_PATH": "/usr/local/cuda",
        "CUDA_TOOLKIT_ROOT": "/usr/local/cuda",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:+",
        "MAX_JOBS": "4",
        "PATH": "/usr/local/cuda/bin:+",
        "PYTORCH_BUILD_NUMBER": "1",
        "PYTORCH_BUILD_VERSION": "2.9.0+cu130.sm121",
        "TORCH_CUDA_ARCH_LIST": "12.1",
        "USE_CUDA": "1",
        "USE_CUDNN": "1",
        "USE_DISTRIBUTED": "0",
        "USE_FBGEMM": "0",
        "USE_FLASH_ATTENTION": "0",
        "USE_GFLAGS": "0",
        "USE_GLOG": "0",
        "USE_GLOO": "0",
        "USE_ITT": "0",
        "USE_KINETO": "0",
        "USE_MKLDNN": "0",
        "USE_MPI": "0",
        "USE_NCCL": "0",
        "USE_NNPACK": "0",
        "USE_PYTORCH_QNNPACK": "0",
        "USE_ROCM": "0",
        "USE_TENSORPIPE": "0",
        "USE_VULKAN": "0",
        "USE_XNNPACK": "0",
    }


@pytest.fixture
def spark_plan(legacy_plan: Planner, legacy_tree: Tree) -> Plan:
    return legacy_plan(
        {"target": "gb10", "profile": "minimal", "jobs": "4", "cuda-path": "/usr/local/cuda"},
        tree=replace(legacy_tree, version_text="2.9.0", minimum_cuda="12.0"),
        host=SPARK,
        named=assumed_toolkit("13.0", "linux_aarch64", "/usr/local/cuda"),
    )


def test_every_export_of_theirs_is_planned(spark_plan: Plan) -> None:
    planned = variables(spark_plan)
    assert {name: planned.get(name) for name in THEIRS} == THEIRS
    assert planned == everything(spark_plan)
    assert ids(spark_plan) == []
    assert spark_plan.wheel_name == "torch-2.9.0+cu130.sm121-cp314-cp314-linux_aarch64.whl"


def test_cuda_reaches_cmake_where_variables_do_not(spark_plan: Plan) -> None:
    assert spark_plan.file_defines == {"CUDAToolkit_ROOT", "CUDA_TOOLKIT_ROOT_DIR"}


def test_a_toolkit_before_the_gpu_is_refused(legacy_plan: Planner) -> None:
    old = legacy_plan({"target": "gb10", "version": "2.9.0", "cuda-path": "/usr/local/cuda-12.8"}, host=SPARK)
    assert finding(old, "toolkit-lacks-architecture") == (
        "error: -C cuda-path: CUDA 12.8 in /usr/local/cuda-12.8 cannot compile for sm_121 (12.1)"
        "  [toolkit-lacks-architecture]\n"
        "    why: sm_121 is compiled by CUDA 12.9 and later\n"
        "    fix: install such a toolkit and name it with -C cuda-path=, or leave 12.1 out of the architectures"
    )
