"""For every rule of a scene: one where it is broken, with the whole message, and one where it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from preflight.contexts import CL, GCC, GIB, scene, toolkit, tree
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.host.model import Compiler
from torchwheel.preflight.context import Scene, TreeFacts
from torchwheel.preflight.facts import NOT_INSTALLED, HostCompilerLimits, Installed, VisualStudio
from torchwheel.tree.submodules import WrongCommit

WINDOWS = {
    "platform": "win_amd64",
    "compiler": CL,
    "source": tree("2.8.0"),
    "toolkits": (toolkit("12.9", "win_amd64"),),
}
NEW_CL = Compiler("cxx", "msvc", "cl", "19.44.35211", "cl")
TOO_NEW_CL = Compiler("cxx", "msvc", "cl", "19.51.1", "cl")
A100 = {"target": "a100"}
PROMPT = {"VSCMD_ARG_TGT_ARCH": "x64"}
OLD_GPU = DetectedGpu("Tesla T4", Architecture(7, 5))
NEW_GPU = DetectedGpu("NVIDIA GeForce RTX 5070", Architecture(12, 0))


@dataclass(frozen=True)
class Pair:
    """Two scenes of one rule."""

    broken: Callable[[], Scene]
    holds: Callable[[], Scene]


def limited(**limits: object) -> tuple[object, ...]:
    return (toolkit(limits=HostCompilerLimits(**limits)),)


PAIRS = {
    "need-not-build": Pair(scene, lambda: scene(source=tree("2.6.0"))),
    "newer-driver-instead": Pair(lambda: scene(facts={"driver": "470.256.02"}), scene),
    "target-cannot-run": Pair(lambda: scene({"arch": "8.9"}), scene),
    "submodules-at-other-commits": Pair(
        lambda: scene(
            tree_facts=TreeFacts(wrong_commits=(WrongCommit("third_party/fmt", "1" * 40, "2" * 40),))
        ),
        scene,
    ),
    "toolkit-not-for-platform": Pair(
        lambda: scene(platform="win_arm64", toolkits=(toolkit("12.9", "win_arm64"),), compiler=CL), scene
    ),
    "toolkit-incomplete": Pair(
        lambda: scene(toolkits=(toolkit(missing=("cublas", "cupti", "nvrtc")),)), scene
    ),
    "toolkit-versions-differ": Pair(lambda: scene(toolkits=(toolkit(header_version="12.4"),)), scene),
    "second-toolkit-in-search-path": Pair(
        lambda: scene(environment={"CPATH": "/usr/local/cuda-12.4/include"}),
        lambda: scene(environment={"CPATH": "/usr/local/cuda-12.8/include"}),
    ),
    "toolkit-needs-newer-glibc": Pair(lambda: scene(glibc="2.17"), scene),
    "toolkit-lacks-architecture": Pair(
        lambda: scene({"target": "gb10", "cuda": ">=12"}, platform="linux_aarch64", named=True), scene
    ),
    "toolkit-lacks-target": Pair(
        lambda: scene({"arch": "8.9"}, toolkits=(toolkit("12.3"),), named=True),
        lambda: scene({"arch": "9.0+PTX"}, toolkits=(toolkit("12.3"),), named=True),
    ),
    "toolkit-too-old": Pair(
        lambda: scene(A100, source=tree("2.14.1"), toolkits=(toolkit("12.4"),), named=True),
        scene,
    ),
    "toolkit-too-new": Pair(
        lambda: scene(A100, source=tree("2.2.2"), toolkits=(toolkit("12.4"),), named=True),
        scene,
    ),
    "toolkit-untried": Pair(lambda: scene(A100, source=tree("2.6.0"), toolkits=(toolkit("12.9"),)), scene),
    "toolkit-never-published": Pair(
        lambda: scene(A100, source=tree("2.7.1"), toolkits=(toolkit("12.3"),)), scene
    ),
    "tree-lacks-suffix": Pair(
        lambda: scene({"arch": "12.0f"}, source=tree("2.8.0"), toolkits=(toolkit("12.9"),)), scene
    ),
    "no-host-compiler": Pair(lambda: scene(compiler=None), scene),
    "host-compiler-refused-by-cuda": Pair(
        lambda: scene(
            toolkits=limited(gcc_max=14),
            compiler=Compiler("cxx", "gcc", "/usr/bin/g++", "15.1.0", "g++"),
            facts={"other_compilers": (Compiler("cxx", "gcc", "/usr/bin/g++-14", "14.2.0", "g++-14"),)},
        ),
        lambda: scene(toolkits=limited(gcc_max=14)),
    ),
    "host-compiler-check-silenced": Pair(
        lambda: scene({"profile": "minimal"}, **{**WINDOWS, "compiler": TOO_NEW_CL}),
        scene,
    ),
    "msvc-library-needs-newer-cuda": Pair(
        lambda: scene(A100, **{**WINDOWS, "compiler": NEW_CL, "toolkits": (toolkit("12.3", "win_amd64"),)}),
        lambda: scene(**{**WINDOWS, "compiler": NEW_CL}),
    ),
    "host-compiler-too-old": Pair(
        lambda: scene(source=tree("2.6.0"), compiler=Compiler("cxx", "gcc", "/usr/bin/g++", "8.5.0", "g++")),
        lambda: scene(source=tree("2.6.0"), compiler=GCC),
    ),
    "no-visual-studio": Pair(
        lambda: scene(**{**WINDOWS, "compiler": None}, facts={"visual_studio": VisualStudio("", "")}),
        lambda: scene(**{**WINDOWS, "compiler": None}),
    ),
    "no-developer-environment": Pair(
        lambda: scene(**WINDOWS, environment={"VSCMD_ARG_TGT_ARCH": "x86"}),
        lambda: scene(**WINDOWS, environment=PROMPT),
    ),
    "python-not-supported": Pair(lambda: scene(python="3.9.2"), scene),
    "python-newer-than-pytorch": Pair(lambda: scene(python="3.14.0", source=tree("2.6.0")), scene),
    "no-python-headers": Pair(lambda: scene(facts={"python_headers": False}), scene),
    "build-packages-missing": Pair(
        lambda: scene(managed=False, facts={"packages": {"setuptools": "59.6.0", "pyyaml": ""}}),
        lambda: scene(managed=False),
    ),
    "no-cmake": Pair(lambda: scene(facts={"tools": {"cmake": NOT_INSTALLED}}), scene),
    "cmake-too-old": Pair(lambda: scene(facts={"tools": {"cmake": Installed("3.22.1")}}), scene),
    "cmake-too-new": Pair(
        lambda: scene(source=tree("2.6.0"), facts={"tools": {"cmake": Installed("4.0.3")}}),
        lambda: scene(
            {"env.CMAKE_POLICY_VERSION_MINIMUM": "3.5"},
            source=tree("2.6.0"),
            facts={"tools": {"cmake": Installed("4.0.3")}},
        ),
    ),
    "no-ninja": Pair(lambda: scene(facts={"tools": {"ninja": NOT_INSTALLED}}), scene),
    "component-not-on-platform": Pair(
        lambda: scene({"define.USE_NCCL": "ON", "target": "b200"}, **WINDOWS),
        lambda: scene({"define.USE_NCCL": "ON"}),
    ),
    "option-not-on-machine": Pair(
        lambda: scene(
            {"define.BLAS": "MKL", "target": "gb10"}, platform="linux_aarch64", toolkits=(toolkit("13.0"),)
        ),
        lambda: scene({"define.BLAS": "MKL"}),
    ),
    "distributed-needs-libuv": Pair(
        lambda: scene(A100, **WINDOWS),
        lambda: scene({"disable": "distributed", "target": "a100"}, **WINDOWS),
    ),
    "option-not-in-pytorch": Pair(lambda: scene({"define.USE_TENSORRT": "ON"}, source=tree("2.6.0")), scene),
    "install-prefix-not-free": Pair(lambda: scene({"define.CMAKE_INSTALL_PREFIX": "/opt/venv"}), scene),
    "no-cudnn": Pair(lambda: scene(facts={"libraries": {"cudnn": NOT_INSTALLED}}), scene),
    "cudnn-not-supported": Pair(
        lambda: scene(facts={"libraries": {"cudnn": Installed("8.2.4", "/usr/include/cudnn_version.h")}}),
        scene,
    ),
    "no-system-nccl": Pair(
        lambda: scene({"enable": "system-nccl"}, facts={"libraries": {"nccl": NOT_INSTALLED}}),
        lambda: scene({"enable": "system-nccl"}),
    ),
    "nccl-fetched-offline": Pair(
        lambda: scene(facts={"online": False}, tree_facts=TreeFacts(fetches_nccl=True)),
        lambda: scene(tree_facts=TreeFacts(fetches_nccl=True)),
    ),
    "variables-add-architectures": Pair(
        lambda: scene(environment={"NVCC_APPEND_FLAGS": "-lineinfo -gencode=arch=compute_80,code=sm_80"}),
        lambda: scene(environment={"NVCC_APPEND_FLAGS": "-lineinfo"}),
    ),
    "variables-bind-to-this-cpu": Pair(
        lambda: scene(environment={"CXXFLAGS": "-O2 -march=native"}),
        lambda: scene(environment={"CXXFLAGS": "-O2"}),
    ),
    "disk-too-small": Pair(lambda: scene(facts={"free_disk_bytes": 2 * GIB}), scene),
    "too-many-jobs-for-memory": Pair(
        lambda: scene({"jobs": "18"}, memory=16 * GIB), lambda: scene({"jobs": "4"})
    ),
    "memory-too-small": Pair(lambda: scene(memory=4 * GIB), lambda: scene(memory=33378976 * 1024)),
    "path-too-long": Pair(
        lambda: scene(**WINDOWS, facts={"build_folder": "C:\\" + "a" * 90}), lambda: scene(**WINDOWS)
    ),
    "path-with-spaces": Pair(
        lambda: scene(**WINDOWS, facts={"build_folder": r"C:\Users\Désirée Müller\builds"}),
        lambda: scene(**WINDOWS),
    ),
    "stale-cmake-cache": Pair(
        lambda: scene(tree_facts=TreeFacts(stale_options=("USE_DISTRIBUTED is ON, not OFF",))), scene
    ),
    "architecture-does-not-run-here": Pair(
        lambda: scene(facts={"gpus": (OLD_GPU,)}), lambda: scene(facts={"gpus": (OLD_GPU, NEW_GPU)})
    ),
    "driver-too-old": Pair(lambda: scene(facts={"driver": "470.256.02"}), scene),
    "driver-too-old-for-ptx": Pair(
        lambda: scene(
            {"target": "a100", "arch": "compute_75"},
            facts={"driver": "535.183.01", "gpus": (DetectedGpu("NVIDIA A100", Architecture(8, 0)),)},
        ),
        lambda: scene({"arch": "9.0+PTX", "target": "rtx5070"}, facts={"gpus": (NEW_GPU,)}),
    ),
}
