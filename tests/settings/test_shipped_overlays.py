from __future__ import annotations

import pytest

from settings.loading import Load
from torchwheel._resources import overlays_folder
from torchwheel._toml import read_toml
from torchwheel.host.model import Host
from torchwheel.settings import Layer, Settings


def requested(settings: Settings) -> dict[str, object]:
    """Every define in the words of a script: 1 and 0 for truth values."""
    return {name: int(value) if isinstance(value, bool) else value for name, value in settings.define.items()}


def test_the_files_that_are_shipped() -> None:
    kinds = {file.stem: read_toml(file)["kind"] for file in overlays_folder().glob("*.toml")}
    profiles, targets = ("debug", "minimal"), ("a100", "cpu", "gb10", "rtx5070")
    assert kinds == dict.fromkeys(profiles, "profile") | dict.fromkeys(targets, "target")


@pytest.mark.parametrize("target", ["rtx5070", "gb10", "a100", "cpu", "t4"])
@pytest.mark.parametrize("profile", ["", "minimal", "debug", "minimal,debug"])
def test_every_target_goes_with_every_profile_everywhere(
    load: Load, linux: Host, windows: Host, spark: Host, target: str, profile: str
) -> None:
    for host in (linux, windows, spark):
        settings = load(config={"target": target, "profile": profile}, host=host)
        assert settings.target == (target,)
        assert settings.build_type == ("Debug" if "debug" in profile else "Release")


# What the working script passed to CMake beside paths, the target's architecture and CUDA itself.
RTX5070_ON_WINDOWS = {
    "BUILD_SHARED_LIBS": 1,
    "CMAKE_CUDA_ARCHITECTURES": "120",
    "CMAKE_CUDA_FLAGS": "-allow-unsupported-compiler",
    "CMAKE_CXX_FLAGS": "/MP /O2",
    "CMAKE_C_FLAGS": "/MP /O2",
    "USE_CUDA": 1,
    "USE_DISTRIBUTED": 0,
    "USE_MPI": 0,
    "USE_GLOO": 0,
    "USE_NCCL": 0,
    "USE_OPENMP": 0,
    "BUILD_CAFFE2": 0,
    "USE_CAFFE2": 0,
    "USE_PTHREADPOOL": 0,
    "CAFFE2_USE_PTHREADPOOL": 0,
    "USE_SYSTEM_PTHREADPOOL": 0,
    "CMAKE_C_USE_RESPONSE_FILE_FOR_OBJECTS": 1,
    "CMAKE_CXX_USE_RESPONSE_FILE_FOR_OBJECTS": 1,
    "CMAKE_C_USE_RESPONSE_FILE_FOR_INCLUDES": 1,
    "CMAKE_CXX_USE_RESPONSE_FILE_FOR_INCLUDES": 1,
}


def test_rtx5070_on_windows(load: Load, windows: Host) -> None:
    settings = load(config={"target": "rtx5070"}, host=windows)
    assert requested(settings) == RTX5070_ON_WINDOWS
    assert str(settings.arch) == "12.0"
    assert str(settings.cuda) == ">=12.8,<13"
    assert settings.build_type == "Release"
    assert settings.entries["build-type"].layer is Layer.BUILTIN_OVERLAY
    assert dict(settings.env) == {"CMAKE_GENERATOR": "Ninja"}


def test_rtx5070_on_linux(load: Load) -> None:
    settings = load(config={"target": "rtx5070"})
    assert requested(settings) == {"USE_CUDA": 1}
    assert (str(settings.arch), str(settings.cuda), dict(settings.env)) == ("12.0", ">=12.8", {})


def test_gb10_minimal_is_the_configuration_that_got_furthest(load: Load, spark: Host) -> None:
    settings = load(config={"target": "gb10", "profile": "minimal"}, host=spark)
    script = {
        "USE_CUDA": 1,
        "USE_CUDNN": 1,
        "USE_NCCL": 0,
        "USE_FLASH_ATTENTION": 0,
        "USE_XNNPACK": 0,
        "USE_FBGEMM": 0,
        "USE_KINETO": 0,
        "USE_DISTRIBUTED": 0,
        "BUILD_TEST": 0,
    }
    assert {name: value for name, value in requested(settings).items() if name in script} == script
    assert (str(settings.arch), str(settings.cuda)) == ("12.1", ">=12.9")
    assert settings.define["BLAS"] == "OpenBLAS"


def test_a100(load: Load) -> None:
    settings = load(config={"target": "a100"})
    assert requested(settings) == {
        "USE_CUDA": 1,
        "USE_CUDNN": 1,
        "USE_DISTRIBUTED": 1,
        "USE_NCCL": 1,
        "USE_FLASH_ATTENTION": 1,
        "USE_MEM_EFF_ATTENTION": 1,
        "USE_CCACHE": 1,
    }
    assert (str(settings.arch), str(settings.cuda), settings.build_type) == ("8.0", ">=11.8", "Release")
    assert dict(settings.env) == {"CMAKE_GENERATOR": "Ninja"}


# Everything that the smallest configuration known to compile on a CPU switches off.
SMALLEST = (
    *(
        "USE_CUDA",
        "USE_CUDNN",
        "USE_ROCM",
        "USE_DISTRIBUTED",
        "USE_GLOO",
        "USE_MPI",
        "USE_TENSORPIPE",
        "USE_FBGEMM",
    ),
    *(
        "USE_MKLDNN",
        "USE_NNPACK",
        "USE_XNNPACK",
        "USE_PYTORCH_QNNPACK",
        "USE_KINETO",
        "USE_ITT",
        "USE_VULKAN",
    ),
    *("USE_GFLAGS", "USE_GLOG", "BUILD_TEST"),
)


def test_cpu_minimal_switches_off_all_of_the_smallest_configuration(load: Load) -> None:
    settings = load(config={"target": "cpu", "profile": "minimal"})
    assert {name: settings.define.get(name) for name in SMALLEST} == dict.fromkeys(SMALLEST, False)
    assert set(settings.define.values()) == {False}
    assert settings.arch is None


def test_minimal_leaves_cuda_to_the_target(load: Load) -> None:
    assert load(config={"profile": "minimal"}).define.keys().isdisjoint({"USE_CUDA", "USE_CUDNN"})


def test_debug(load: Load) -> None:
    settings = load(config={"profile": "debug"})
    assert (settings.build_type, dict(settings.define)) == ("Debug", {"DEBUG_CUDA": False})
