"""For every rule of a context: one where it is broken, and one where it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from preflight.contexts import CL, GCC, GIB, context, toolkit, tree
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.host.machine import Compiler
from torchwheel.preflight.facts import NOT_INSTALLED, Installed
from torchwheel.preflight.registry import Context
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.toolkit.host_compiler import HostCompilerLimits
from torchwheel.tree.git import WrongCommit

WINDOWS = {
    "platform": "win_amd64",
    "compiler": CL,
    "source": tree("2.8.0"),
    "toolkits": (toolkit("12.9", "win_amd64"),),
}
NEW_CL = Compiler("cxx", "msvc", "cl", "19.44.35211", "cl")
TOO_NEW_CL = Compiler("cxx", "msvc", "cl", "19.51.1", "cl")
A100 = {"target": "a100"}
GCC_14 = Compiler("cxx", "gcc", "/usr/bin/g++", "14.1.0", "g++")
GCC_15 = Compiler("cxx", "gcc", "/usr/bin/g++", "15.1.0", "g++")
CONDA = {"CONDA_PREFIX": "/opt/conda", "CPATH": "/opt/conda/include", "LD_LIBRARY_PATH": "/opt/conda/lib"}
WSL = {"WSL_DISTRO_NAME": "Ubuntu"}
OLD_GPU = NamedGpu("Tesla T4", Architecture(7, 5))
NEW_GPU = NamedGpu("NVIDIA GeForce RTX 5070", Architecture(12, 0))


@dataclass(frozen=True)
class Pair:
    """Two contexts of one rule."""

    broken: Callable[[], Context]
    holds: Callable[[], Context]


def limited(**limits: object) -> tuple[object, ...]:
    return (toolkit(limits=HostCompilerLimits(**limits)),)


PAIRS = {
    "need-not-build": Pair(context, lambda: context(source=tree("2.6.0"))),
    "newer-driver-instead": Pair(lambda: context(facts={"driver": "470.256.02"}), context),
    "xpu-not-built": Pair(
        lambda: context({"define.USE_XPU": "1"}), lambda: context({"define.USE_XPU": "OFF"})
    ),
    "last-official-build": Pair(
        lambda: context({"target": "gtx1080ti"}, source=tree("2.15.0"), toolkits=(toolkit("12.9"),)), context
    ),
    "flags-without-ehsc": Pair(
        lambda: context(
            {"define.CMAKE_CXX_FLAGS": "/MP /O2", "define.CMAKE_CUDA_FLAGS": "-lineinfo"},
            platform="win_amd64",
        ),
        lambda: context(
            {"define.CMAKE_CXX_FLAGS": "/EHsc /bigobj", "env.CXXFLAGS": "/bigobj"}, platform="win_amd64"
        ),
    ),
    "variables-bind-to-this-cpu": Pair(
        lambda: context(
            {"define.CMAKE_C_FLAGS": "-mcpu=neoverse-v2"}, environment={"CXXFLAGS": "-O2 -march=znver4"}
        ),
        lambda: context(environment={"CXXFLAGS": "-O2"}),
    ),
    "gpu-not-on-platform": Pair(
        lambda: context({"target": "gb10"}, toolkits=(toolkit("13.0"),)),
        lambda: context(
            {"target": "gb10"}, platform="linux_aarch64", toolkits=(toolkit("13.0", "linux_aarch64"),)
        ),
    ),
    "cmake-architectures-unread": Pair(lambda: context({"define.CMAKE_CUDA_ARCHITECTURES": "89"}), context),
    "rocm-not-built": Pair(
        lambda: context({"target": "cpu", "define.USE_ROCM": "ON"}),
        lambda: context({"target": "cpu", "define.USE_ROCM": "OFF"}),
    ),
    "submodules-at-other-commits": Pair(
        lambda: context(
            tree_facts=TreeFacts(wrong_commits=(WrongCommit("third_party/fmt", "1" * 40, "2" * 40),))
        ),
        context,
    ),
    "toolkit-not-for-platform": Pair(
        lambda: context(platform="win_arm64", toolkits=(toolkit("12.9", "win_arm64"),), compiler=CL), context
    ),
    "toolkit-incomplete": Pair(
        lambda: context(toolkits=(toolkit(missing=("cublas", "cupti", "nvrtc")),)), context
    ),
    "second-toolkit-in-search-path": Pair(
        lambda: context(environment={"CPATH": "/usr/local/cuda-12.4/include"}),
        lambda: context(environment={"CPATH": "/usr/local/cuda-12.8/include"}),
    ),
    "toolkit-needs-newer-glibc": Pair(lambda: context(glibc="2.17"), context),
    "glibc-too-new-for-cuda": Pair(lambda: context(glibc="2.41"), context),
    "toolkit-lacks-target": Pair(
        lambda: context({"arch": "8.9"}, toolkits=(toolkit("12.3"),), named=True),
        lambda: context({"arch": "9.0+PTX"}, toolkits=(toolkit("12.3"),), named=True),
    ),
    "nvcc-bug": Pair(
        lambda: context(
            A100,
            **{**WINDOWS, "source": tree("2.7.1"), "toolkits": (toolkit("12.9", "win_amd64"),)},
            named=True,
        ),
        lambda: context(A100, source=tree("2.7.1"), toolkits=(toolkit("12.9"),), named=True),
    ),
    "no-host-compiler": Pair(lambda: context(compiler=None), context),
    "host-compiler-refused-by-cuda": Pair(
        lambda: context(
            toolkits=limited(gcc_max=14),
            compiler=Compiler("cxx", "gcc", "/usr/bin/g++", "15.1.0", "g++"),
            facts={"other_compilers": (Compiler("cxx", "gcc", "/usr/bin/g++-14", "14.2.0", "g++-14"),)},
        ),
        lambda: context(toolkits=limited(gcc_max=14)),
    ),
    "host-compiler-check-silenced": Pair(
        lambda: context(
            {**A100, "env.CUDAFLAGS": "-allow-unsupported-compiler"},
            **{**WINDOWS, "compiler": NEW_CL, "toolkits": (toolkit("12.3", "win_amd64"),)},
        ),
        # nvcc stops all the same where Visual Studio itself is newer.
        lambda: context({"profile": "minimal"}, **{**WINDOWS, "compiler": TOO_NEW_CL}),
    ),
    "msvc-library-needs-newer-cuda": Pair(
        lambda: context(A100, **{**WINDOWS, "compiler": NEW_CL, "toolkits": (toolkit("12.3", "win_amd64"),)}),
        lambda: context(**{**WINDOWS, "compiler": NEW_CL}),
    ),
    "host-compiler-fails": Pair(
        lambda: context({"target": "cpu"}, source=tree("2.6.0"), compiler=GCC_15),
        lambda: context({"target": "cpu", "disable": "gloo"}, source=tree("2.6.0"), compiler=GCC_15),
    ),
    "host-compiler-suspect": Pair(
        lambda: context({"target": "cpu"}, platform="linux_aarch64", compiler=GCC_14),
        lambda: context({"target": "cpu"}, compiler=GCC_14),
    ),
    "program-fails": Pair(
        lambda: context(**WINDOWS, facts={"tools": {"ninja": Installed("1.13.0")}}),
        lambda: context(facts={"tools": {"ninja": Installed("1.13.0")}}),
    ),
    "host-compiler-too-old": Pair(
        lambda: context(
            source=tree("2.6.0"), compiler=Compiler("cxx", "gcc", "/usr/bin/g++", "8.5.0", "g++")
        ),
        lambda: context(source=tree("2.6.0"), compiler=GCC),
    ),
    "python-not-supported": Pair(lambda: context(python="3.9.2"), context),
    "python-newer-than-pytorch": Pair(lambda: context(python="3.13.1", source=tree("2.4.0")), context),
    "python-breaks-pytorch": Pair(lambda: context(python="3.14.0", source=tree("2.6.0")), context),
    "no-python-headers": Pair(lambda: context(facts={"python_headers": False}), context),
    "build-packages-missing": Pair(
        lambda: context(managed=False, facts={"packages": {"setuptools": "59.6.0", "pyyaml": ""}}),
        lambda: context(managed=False),
    ),
    "toolkit-fetched-offline": Pair(
        lambda: context({"cuda-from": "pypi"}, facts={"online": False}),
        lambda: context({"cuda-from": "pypi"}, facts={"online": False, "own_index": True}),
    ),
    "no-ninja": Pair(lambda: context(facts={"tools": {"ninja": NOT_INSTALLED}}), context),
    "option-not-on-machine": Pair(
        lambda: context(
            {"define.BLAS": "MKL", "target": "gb10"}, platform="linux_aarch64", toolkits=(toolkit("13.0"),)
        ),
        lambda: context({"define.BLAS": "MKL"}),
    ),
    "distributed-needs-libuv": Pair(
        lambda: context(A100, **WINDOWS),
        lambda: context({"disable": "distributed", "target": "a100"}, **WINDOWS),
    ),
    "option-not-in-pytorch": Pair(
        # Later trees print it in their summary; where nothing mentions it, the plan says so.
        lambda: context(
            {"define.USE_TENSORRT": "ON"}, source=tree("2.6.0", known_names=frozenset({"USE_TENSORRT"}))
        ),
        lambda: context({"define.USE_TENSORRT": "ON"}, source=tree("2.6.0")),
    ),
    "install-prefix-not-free": Pair(lambda: context({"define.CMAKE_INSTALL_PREFIX": "/opt/venv"}), context),
    "no-cudnn": Pair(lambda: context(facts={"libraries": {"cudnn": NOT_INSTALLED}}), context),
    "requested-cudnn-missing": Pair(
        lambda: context({"enable": "cudnn"}, facts={"libraries": {"cudnn": NOT_INSTALLED}}),
        lambda: context({"enable": "cudnn"}),
    ),
    "cudnn-lacks-architecture": Pair(
        lambda: context(
            {"target": "v100"},
            facts={"libraries": {"cudnn": Installed("9.11.0", "/usr/include/cudnn_version.h")}},
        ),
        lambda: context({"target": "v100"}),
    ),
    "no-cutlass": Pair(
        lambda: context(
            facts={"libraries": {"cutlass": NOT_INSTALLED}},
            tree_facts=TreeFacts(needs_cutlass="aten/src/ATen/native/cuda/RowwiseScaledMM.cu"),
        ),
        lambda: context(
            facts={"libraries": {"cutlass": Installed("3.4.1", "/usr/include/cutlass/version.h")}},
            tree_facts=TreeFacts(needs_cutlass="aten/src/ATen/native/cuda/RowwiseScaledMM.cu"),
        ),
    ),
    "cudnn-not-supported": Pair(
        lambda: context(facts={"libraries": {"cudnn": Installed("8.2.4", "/usr/include/cudnn_version.h")}}),
        context,
    ),
    "no-system-nccl": Pair(
        lambda: context({"enable": "system-nccl"}, facts={"libraries": {"nccl": NOT_INSTALLED}}),
        lambda: context({"enable": "system-nccl"}),
    ),
    "nvcc-architecture-suspect": Pair(
        lambda: context({"target": "b300"}, source=tree("2.14.1"), toolkits=(toolkit("13.0"),)),
        lambda: context({"target": "b200"}, source=tree("2.14.1"), toolkits=(toolkit("13.0"),)),
    ),
    "system-nccl-too-old": Pair(
        lambda: context({"enable": "system-nccl"}, tree_facts=TreeFacts(nccl="2.29.7")),
        lambda: context({"enable": "system-nccl"}, tree_facts=TreeFacts(nccl="2.27.3")),
    ),
    "nvshmem-too-old": Pair(
        lambda: context(
            facts={
                "libraries": {
                    "nvshmem": Installed("3.2.5", "/venv/lib/python3.12/site-packages/nvidia/nvshmem")
                }
            },
            tree_facts=TreeFacts(nvshmem="3.4.5"),
        ),
        lambda: context(
            facts={"libraries": {"nvshmem": Installed("3.4.5", "/usr/local/cuda/include")}},
            tree_facts=TreeFacts(nvshmem="3.4.5"),
        ),
    ),
    "native-aot-kernels-missing": Pair(
        lambda: context(tree_facts=TreeFacts(native_aot=("sm_120",))),
        lambda: context({"env.TORCH_NATIVE_AOT": "0"}, tree_facts=TreeFacts(native_aot=("sm_120",))),
    ),
    "variables-add-architectures": Pair(
        lambda: context(
            {"define.CMAKE_CUDA_FLAGS": "-arch=sm_80"},
            environment={"NVCC_APPEND_FLAGS": "-lineinfo -gencode=arch=compute_80,code=sm_80"},
        ),
        lambda: context(environment={"NVCC_APPEND_FLAGS": "-lineinfo"}),
    ),
    "variables-set-old-abi": Pair(
        lambda: context(
            {"define.CMAKE_CXX_FLAGS": "-D_GLIBCXX_USE_CXX11_ABI=0"},
            environment={"CXXFLAGS": "-O2 -D_GLIBCXX_USE_CXX11_ABI=0"},
        ),
        lambda: context(environment={"CXXFLAGS": "-O2 -D_GLIBCXX_USE_CXX11_ABI=1"}),
    ),
    "unused-variable": Pair(
        lambda: context(environment={"TORCH_CXX11_ABI": "1"}),
        lambda: context(environment={"MKLROOT": "/opt/intel/mkl"}),
    ),
    "conda-beside-system-compiler": Pair(
        lambda: context(environment=CONDA),
        lambda: context(
            environment=CONDA, compiler=replace(GCC, path="/opt/conda/bin/x86_64-conda-linux-gnu-c++")
        ),
    ),
    "windows-drive-in-wsl": Pair(
        lambda: context(environment=WSL, facts={"build_folder": "/mnt/c/Users/me/builds"}),
        lambda: context(environment=WSL),
    ),
    "disk-too-small": Pair(lambda: context(facts={"free_disk_bytes": 2 * GIB}), context),
    "too-many-jobs-for-memory": Pair(
        lambda: context({"jobs": "18"}, memory=16 * GIB), lambda: context({"jobs": "4"})
    ),
    "memory-too-small": Pair(lambda: context(memory=4 * GIB), lambda: context(memory=33378976 * 1024)),
    "path-too-long": Pair(
        lambda: context(**WINDOWS, facts={"build_folder": "C:\\" + "a" * 90}), lambda: context(**WINDOWS)
    ),
    "path-with-spaces": Pair(
        lambda: context(**WINDOWS, facts={"build_folder": r"C:\Users\Désirée Müller\builds"}),
        lambda: context(**WINDOWS),
    ),
    "machine-did-not-answer": Pair(
        lambda: context(
            facts={
                "unanswered": {
                    "cmake": "cmake ended with status 1, and prints nothing",
                    "gpus": "nvidia-smi took longer than 10 seconds",
                    "/usr/bin/g++": "a rule of its own says this",
                }
            }
        ),
        context,
    ),
    "build-folder-not-writable": Pair(
        lambda: context(facts={"obstacles": {"/cache/builds": "you have no write permission in /cache"}}),
        context,
    ),
    "unpackable-files": Pair(
        lambda: context(
            tree_facts=TreeFacts(
                unpackable={"torch/a\udcff.py": "its name is not UTF-8, as names in wheels are"}
            )
        ),
        context,
    ),
    "foreign-libraries": Pair(
        lambda: context(tree_facts=TreeFacts(foreign_libraries=("torch/lib/libtorch_cuda.so",))), context
    ),
    "unknown-skip-check": Pair(
        lambda: context({"skip-check": "no-cudnn,disk-too-smal"}),
        lambda: context({"skip-check": "wheel-cuda"}),
    ),
    "path-breaks-tools": Pair(lambda: context({"build-dir": "/a#b;c:d"}), context),
    "build-folder-in-checkout": Pair(lambda: context({"build-dir": "/src/pytorch/build"}), context),
    "host-compiler-does-not-work": Pair(
        lambda: context(facts={"unanswered": {"/usr/bin/g++": "/usr/bin/g++ took longer than 10 seconds"}}),
        context,
    ),
    "nvcc-does-not-work": Pair(
        lambda: context(
            facts={
                "unanswered": {
                    "/usr/local/cuda-12.8/bin/nvcc": "nvcc ended with status 3, and prints nothing"
                }
            }
        ),
        context,
    ),
    "architecture-does-not-run-here": Pair(
        lambda: context(facts={"gpus": (OLD_GPU,)}), lambda: context(facts={"gpus": (OLD_GPU, NEW_GPU)})
    ),
    "driver-too-old": Pair(lambda: context(facts={"driver": "470.256.02"}), context),
    "driver-too-old-for-ptx": Pair(
        lambda: context(
            {"target": "a100", "arch": "compute_75"},
            facts={"driver": "535.183.01", "gpus": (NamedGpu("NVIDIA A100", Architecture(8, 0)),)},
        ),
        lambda: context({"arch": "9.0+PTX", "target": "rtx5070"}, facts={"gpus": (NEW_GPU,)}),
    ),
}
