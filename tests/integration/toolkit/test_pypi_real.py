"""The assembled toolkit, used by what it is made for: nvcc, CMake and PyTorch's own CMake files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from answered import answered
from torchwheel.toolkit.assemble import assemble_toolkit
from torchwheel.toolkit.cuda_toolkit import Toolkit

INTERPRETER = os.environ.get("TEST_TORCHWHEEL_CUDA_TORCH")
REAL_TREE = os.environ.get("TEST_TORCHWHEEL_PYTORCH_TREE")
"""A PyTorch source tree up to 2.13, whose cmake folder is read."""

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(
        INTERPRETER is None,
        reason="TEST_TORCHWHEEL_CUDA_TORCH names no interpreter with torch and cuda-toolkit[nvcc]",
    ),
]

KERNEL = """
#include <cub/cub.cuh>
#include <cublas_v2.h>
#include <cuda.h>
__global__ void twice(float* x) {
  typedef cub::BlockReduce<float, 32> Reduce;
  __shared__ typename Reduce::TempStorage storage;
  x[threadIdx.x] = Reduce(storage).Sum(x[threadIdx.x]) + __expf(x[0]);
}
int main() {
  cuInit(0);
  cublasHandle_t handle;
  cublasCreate(&handle);
  twice<<<1, 32>>>(nullptr);
  return cudaDeviceSynchronize() == cudaSuccess;
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.24)
project(check LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
if(NOT CMAKE_CUDA_COMPILER_VERSION VERSION_EQUAL CUDAToolkit_VERSION)
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER_VERSION} and ${CUDAToolkit_VERSION}")
endif()
add_executable(check kernel.cu)
set_property(TARGET check PROPERTY CUDA_ARCHITECTURES 90 120)
target_link_libraries(check CUDA::cudart CUDA::cublas CUDA::cusparse CUDA::cusolver CUDA::cufft CUDA::curand
                      CUDA::nvrtc CUDA::nvJitLink CUDA::cupti CUDA::nvtx3 CUDA::cuda_driver)
"""

# What cmake/public/cuda.cmake does first.
FIND_CUDA = """
cmake_minimum_required(VERSION 3.18...3.27)
project(check LANGUAGES C CXX)
list(APPEND CMAKE_MODULE_PATH "${PYTORCH}/cmake/Modules" "${PYTORCH}/cmake/Modules_CUDA_fix")
find_package(CUDA REQUIRED)
set(CUDAToolkit_ROOT "${CUDA_TOOLKIT_ROOT_DIR}")
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
foreach(name CUDA_TOOLKIT_ROOT_DIR CUDA_VERSION CUDA_NVCC_EXECUTABLE CUDA_CUDART_LIBRARY CUDA_cublas_LIBRARY
             CUDA_cufft_LIBRARY CUDA_curand_LIBRARY CUDA_cusparse_LIBRARY CUDA_cusolver_LIBRARY
             CUDA_nvrtc_LIBRARY CUDA_cupti_LIBRARY CUDA_cudadevrt_LIBRARY CUDAToolkit_VERSION)
  message(NOTICE "${name}=${${name}}")
endforeach()
if(NOT TARGET CUDA::cuda_driver OR NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cuFile)
  message(FATAL_ERROR "a target is missing")
endif()
"""


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkit:
    command = [str(INTERPRETER), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = answered(command, check=True, timeout=60).stdout.strip()
    return assemble_toolkit(Path(packages), tmp_path_factory.mktemp("ein Cache é"))


def environment(toolkit: Toolkit) -> dict[str, str]:
    """No other toolkit is named or found first."""
    names = ("CUDA_HOME", "CUDA_PATH", "CUDA_BIN_PATH", "CUDA_TOOLKIT_ROOT", "CUDACXX", "CUDAToolkit_ROOT")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return kept | {"PATH": os.pathsep.join([toolkit.bin_dir, kept["PATH"]])}


def said(*command: str | Path, cwd: Path, env: Mapping[str, str]) -> str:
    answer = answered([str(part) for part in command], cwd=cwd, env=env, timeout=600)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


@pytest.mark.parametrize("architecture", ["80", "90", "120", "121"])
def test_nvcc_compiles_and_links(toolkit: Toolkit, architecture: str, tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(KERNEL, encoding="utf-8")
    nvcc = [toolkit.nvcc or "", f"-gencode=arch=compute_{architecture},code=sm_{architecture}"]
    said(*nvcc, "kernel.cu", "-o", "check", "-lcublas", "-lcuda", cwd=tmp_path, env=environment(toolkit))
    assert f"sm_{architecture}".encode() in (tmp_path / "check").read_bytes()


def test_nvcc_works_through_a_link_to_the_tree(toolkit: Toolkit, tmp_path: Path) -> None:
    """A build folder refers to the toolkit by a link of its own, so that commands read the same everywhere."""
    (tmp_path / "kernel.cu").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "toolkit").symlink_to(toolkit.root)
    command = ("toolkit/bin/nvcc", "-arch=sm_120", "--dryrun", "-c", "kernel.cu")
    assert "-Itoolkit/bin/" in said(*command, cwd=tmp_path, env=environment(toolkit))
    said("toolkit/bin/nvcc", "-arch=sm_120", "-c", "kernel.cu", cwd=tmp_path, env=environment(toolkit))


def test_cmake_s_cuda_language_and_toolkit_package(toolkit: Toolkit, tmp_path: Path) -> None:
    (tmp_path / "kernel.cu").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT, encoding="utf-8")
    places = (f"-DCUDAToolkit_ROOT={toolkit.root}", f"-DCMAKE_CUDA_COMPILER={toolkit.nvcc}")
    said("cmake", "-GNinja", "-B", "build", *places, cwd=tmp_path, env=environment(toolkit))
    said("cmake", "--build", "build", cwd=tmp_path, env=environment(toolkit))
    if shutil.which("readelf"):
        needed = said("readelf", "-d", "build/check", cwd=tmp_path, env=environment(toolkit))
        assert "[libcuda.so.1]" in needed
        assert "stubs" not in needed


@pytest.mark.skipif(REAL_TREE is None, reason="TEST_TORCHWHEEL_PYTORCH_TREE names no PyTorch source tree")
def test_pytorch_s_own_find_cuda(toolkit: Toolkit, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(FIND_CUDA, encoding="utf-8")
    values = {
        "PYTORCH": REAL_TREE,
        "CUDA_TOOLKIT_ROOT_DIR": toolkit.root,
        "CMAKE_CUDA_COMPILER": toolkit.nvcc,
        "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    }
    options = [f"-D{name}={value}" for name, value in values.items()]
    text = said("cmake", "-GNinja", "-B", "build", *options, cwd=tmp_path, env=environment(toolkit))
    values = dict(line.split("=", 1) for line in text.splitlines() if line.startswith("CUDA") and "=" in line)
    libraries = {name: Path(values.pop(name)) for name in sorted(values) if name.endswith("_LIBRARY")}
    assert values == {
        "CUDA_TOOLKIT_ROOT_DIR": toolkit.root,
        "CUDA_VERSION": toolkit.version,
        "CUDA_NVCC_EXECUTABLE": toolkit.nvcc,
        "CUDAToolkit_VERSION": toolkit.full_version,
    }
    assert {path.name for path in libraries.values()} == {
        "libcudart.so", "libcublas.so", "libcufft.so", "libcurand.so", "libcusparse.so", "libcusolver.so",
        "libnvrtc.so", "libcupti.so", "libcudadevrt.a",
    }  # fmt: skip
    assert {path.parent.resolve() for path in libraries.values()} == {Path(toolkit.root, "lib").resolve()}
