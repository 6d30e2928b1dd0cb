"""An emulated Debian arm64 system with a compiler, CMake and Python: a DGX Spark's, without its GPU."""

from __future__ import annotations

import os
import shutil

import pytest

from debian_system import REPOSITORY, DebianSystem, reason_to_skip
from torchwheel.host.this import expand_home

SYSTEM = DebianSystem(expand_home("~/.cache/torchwheel-arm"), foreign="arm64")
PACKAGES = ("cmake", "g++", "make", "ninja-build", "python3-dev")
PLACE = "/srv/on arm"
"""The folder for everything that is built, as seen from inside."""

TORCH, CPU_TORCH = "2.14.1", "2.10.0"
"""On Arm PyPI has the newer one with CUDA 13.0, and the older one without CUDA."""

CUDA_PACKAGES = (
    "nvcc,crt,nvvm,cudart,cccl,cublas,cusparse,cusolver,cufft,curand,nvrtc,nvjitlink,nvtx,nvml,cupti,"
    "profiler,cufile,culibos"
)
TEST_PACKAGES = (
    "numpy", "pytest", "iniconfig", "pluggy", "pygments", "sympy", "mpmath", "networkx", "jinja2",
    "markupsafe", "fsspec", "typing-extensions", "setuptools",
)  # fmt: skip


@pytest.fixture(scope="session")
def system() -> DebianSystem:
    """The system, with the examples in it."""
    if "TEST_TORCHWHEEL_ARM" not in os.environ:
        pytest.skip("emulates a machine for hours; TEST_TORCHWHEEL_ARM is not set")
    if reason := reason_to_skip():
        pytest.skip(reason)
    SYSTEM.make(*PACKAGES)
    examples = SYSTEM.outside(f"{PLACE}/examples")
    shutil.rmtree(examples, ignore_errors=True)
    shutil.copytree(REPOSITORY / "examples", examples, ignore=shutil.ignore_patterns("__pycache__"))
    return SYSTEM


@pytest.fixture(scope="session")
def torchwheel(system: DebianSystem) -> str:
    """torchwheel's command inside, in an environment that the emulated pip made."""
    return system.install_torchwheel(f"{PLACE}/venv")


@pytest.fixture(scope="session")
def cuda_python(system: DebianSystem) -> str:
    """The interpreter of an environment with torchwheel, PyTorch for CUDA 13.0 and that toolkit."""
    python = system.make_environment(f"{PLACE}/cuda torch", f"torch=={TORCH}")
    (packages,) = system.outside(f"{PLACE}/cuda torch").glob("lib/python3.*/site-packages")
    system.unpack(packages, f"cuda-toolkit[{CUDA_PACKAGES}]==13.0.*")
    return python


@pytest.fixture(scope="session")
def cpu_python(system: DebianSystem) -> str:
    """The interpreter of an environment with an older PyTorch, without CUDA, and pytest."""
    return system.make_environment(f"{PLACE}/cpu torch", f"torch=={CPU_TORCH}", *TEST_PACKAGES)
