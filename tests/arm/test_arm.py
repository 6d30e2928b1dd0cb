"""torchwheel on an emulated Arm machine: planned, examined, built, and looked at from outside."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import debian_root
import pytest
from elftools.elf.elffile import ELFFile
from test_real_tree import ASKED, PROJECT, assert_taken, cached

from arm.conftest import PLACE, TORCH
from backend.builds import COMPUTES, GENERATIONS
from debian_system import DebianSystem
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from wheel_samples import agrees_with_record

pytestmark = [pytest.mark.arm, pytest.mark.timeout(6 * 3600)]

ENVIRONMENT = {"TORCHWHEEL_CACHE_DIR": f"{PLACE}/cache"}
MINITORCH = f"{PLACE}/examples/minitorch"
VERSION = ("--package-version", TORCH)
QUICK = ("--disable", "tests,openmp,mpi,flash-attention,cudnn")
# What a DGX Spark's answers to the questions that torchwheel asks.
NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *driver_version*) echo 580.95.05 ;;
  *) echo 'NVIDIA GB10, 12.1' ;;
esac
"""


@pytest.fixture(autouse=True)
def built_anew(system: DebianSystem) -> None:
    """Toolkits and environments are kept, builds are not."""
    shutil.rmtree(system.outside(f"{PLACE}/cache/builds"), ignore_errors=True)
    shutil.rmtree(system.outside(f"{PLACE}/out"), ignore_errors=True)
    system.outside(f"{PLACE}/out").mkdir()


def attempt(system: DebianSystem, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return system.attempt(command, folder=PLACE, environment={**ENVIRONMENT, **environment})


def check(system: DebianSystem, *command: str, **environment: str) -> str:
    return system.enter(command, folder=PLACE, environment={**ENVIRONMENT, **environment})


def answer(system: DebianSystem, *command: str, **environment: str) -> dict[str, Any]:
    """What a command prints with ``--json``, whether or not it found an error."""
    document: dict[str, Any] = json.loads(attempt(system, *command, "--json", **environment).stdout)
    return document


def findings(document: dict[str, Any]) -> dict[str, str]:
    """The severity of each finding, by its id."""
    return {finding["id"]: finding["severity"] for finding in document["findings"]}


def the_wheel(system: DebianSystem) -> WheelContents:
    """The one wheel that was built, as seen from this machine."""
    (wheel,) = system.outside(f"{PLACE}/out").glob("*.whl")
    assert agrees_with_record(wheel)
    with zipfile.ZipFile(wheel) as archive:
        libraries = [archive.read(name) for name in archive.namelist() if ".so" in Path(name).suffixes]
    assert {ELFFile(io.BytesIO(library)).get_machine_arch() for library in libraries} == {"AArch64"}
    return inspect_wheel(wheel)


def device_code(wheel: WheelContents) -> dict[str, set[str]]:
    """The machine code in each library that has any."""
    return {library.path: {i.label for i in library.images} for library in wheel.libraries if library.images}


def make_tree(system: DebianSystem, generation: str) -> str:
    tree = f"{PLACE}/{generation} tree"
    shutil.rmtree(system.outside(tree), ignore_errors=True)
    check(system, "python3", f"{MINITORCH}/tools/make_generation.py", generation, tree)
    return tree


@pytest.fixture(scope="module")
def project(system: DebianSystem) -> tuple[str, str]:
    """torchwheel's command beside PyTorch 2.6.0, and a project around that tree."""
    debian_root.prepare(system)
    folder = system.outside(f"{PLACE}/real tree")
    folder.mkdir(exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT.format(source=debian_root.TREE), encoding="utf-8")
    command = system.install_torchwheel(f"{PLACE}/tree venv", "--system-site-packages")
    return command, f"{PLACE}/real tree"


def test_pytorch_is_configured_for_the_cpu(system: DebianSystem, project: tuple[str, str]) -> None:
    torchwheel, folder = project
    asked = {**ASKED, "Python_EXECUTABLE": f"{PLACE}/tree venv/bin/python3"}
    assert f"proved       all {len(asked)} options" in check(
        system, torchwheel, "build", "--configure-only", folder
    )
    build = answer(system, torchwheel, "plan", folder)["folders"]["build"]
    assert_taken(asked, cached(system.outside(build) / "CMakeCache.txt"))


def test_pytorch_for_gb10_has_no_toolkit(system: DebianSystem, project: tuple[str, str]) -> None:
    """2.6.0 does not compile with CUDA 13, and Debian's CUDA 12.4 does not know sm_121."""
    torchwheel, folder = project
    system.add_components("contrib", "non-free")
    system.unpack_packages("nvidia-cuda-toolkit", "nvidia-cuda-dev")
    asked = (torchwheel, "doctor", folder, "-C", "target=gb10", "-C", "disable=cudnn")
    assert findings(answer(system, *asked))["no-cuda-toolkit"] == "error"
    named = findings(answer(system, *asked, "-C", "cuda=12.4", "-C", "cuda-path=/usr"))
    assert named["toolkit-lacks-architecture"] == "error"


def test_native_is_what_the_driver_says(system: DebianSystem, torchwheel: str) -> None:
    native = (torchwheel, "doctor", MINITORCH, "--target", "native", *VERSION)
    assert findings(answer(system, *native)) == {"no-gpu-found": "error"}

    program = system.outside(f"{PLACE}/driver/nvidia-smi")
    program.parent.mkdir(exist_ok=True)
    program.write_text(NVIDIA_SMI, encoding="utf-8")
    program.chmod(0o755)
    found = answer(system, *native, "-C", "disable=cudnn", PATH=f"{PLACE}/driver:/usr/bin:/bin")
    assert findings(found) == {
        "need-not-build": "note",
        "host-compiler-suspect": "warning",
        "toolkit-from-pypi": "note",
    }
    assert found["wheel"] == f"torch-{TORCH}+cu130.sm121.nocudnn-cp313-cp313-linux_aarch64.whl"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_minitorch_for_the_cpu(system: DebianSystem, torchwheel: str, generation: str) -> None:
    tree = make_tree(system, generation)
    check(system, torchwheel, "build", tree, "--target", "cpu", *VERSION, *QUICK, "-o", "out")
    wheel = the_wheel(system)
    assert wheel.path.name == f"torch-{TORCH}+cpu.nompi.noopenmp-cp313-cp313-linux_aarch64.whl"
    assert device_code(wheel) == {}
    installed = system.make_environment(f"{PLACE}/installed", str(wheel.path))
    version, product, _ = json.loads(check(system, installed, "-c", COMPUTES))
    assert (version, product) == (wheel.version, [[7, 10], [15, 22]])


def test_minitorch_for_gb10(system: DebianSystem, cuda_python: str) -> None:
    """nvcc of PyPI's packages for 64-bit Arm compiles, and this machine reads what came out."""
    tree = make_tree(system, "scikit-build-core")
    torchwheel = (cuda_python, "-m", "torchwheel")
    check(system, *torchwheel, "build", tree, "--target", "gb10", *VERSION, *QUICK, "-o", "out")
    wheel = the_wheel(system)
    assert re.fullmatch(
        rf"torch-{TORCH}\+cu130\.sm121\.[a-z0-9.]+-cp313-cp313-linux_aarch64\.whl", wheel.path.name
    )
    assert device_code(wheel) == {"torch/lib/libtorch_cuda.so": {"sm121"}}


def test_stable_kernel_for_gb10_runs_with_another_pytorch(
    system: DebianSystem, cuda_python: str, cpu_python: str
) -> None:
    """Built with one release of PyTorch for CUDA, tested with an older one for the CPU."""
    pip = (cuda_python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", "out")
    check(system, *pip, "-C", "target=gb10", f"{PLACE}/examples/stable_kernel")
    wheel = the_wheel(system)
    assert wheel.path.name == "stable_kernel-0.1.0+cu130.sm121-cp310-abi3-linux_aarch64.whl"
    assert device_code(wheel) == {"stable_kernel/_cuda.abi3.so": {"sm121"}}
    inside = system.inside(wheel.path)
    check(system, cpu_python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", inside)
    tests = (cpu_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{PLACE}/examples/stable_kernel")
    passed = re.search(r"^(\d+) passed", check(system, *tests), re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) >= 36


def test_a_cudnn_that_is_requested_must_be_there(system: DebianSystem, torchwheel: str) -> None:
    asked = (torchwheel, "doctor", MINITORCH, "--target", "gb10", *VERSION, "--enable", "cudnn")
    assert findings(answer(system, *asked))["requested-cudnn-missing"] == "error"
    packages = system.outside(f"{PLACE}/cudnn")
    system.unpack(packages, "nvidia-cudnn-cu13")
    named = (*asked, "-C", f"define.CUDNN_ROOT={PLACE}/cudnn/nvidia/cudnn")
    # PyPI's package has no libcudnn.so, and FindCUDNN.cmake looks for no other name.
    assert findings(answer(system, *named))["requested-cudnn-missing"] == "error"
    (packages / "nvidia/cudnn/lib/libcudnn.so").symlink_to("libcudnn.so.9")
    assert "requested-cudnn-missing" not in findings(answer(system, *named))
