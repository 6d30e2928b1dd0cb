"""torchwheel on an emulated Arm machine: planned, examined, built, and looked at from outside."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from arm.conftest import PLACE
from backend.builds import COMPUTES, GENERATIONS, QUICK
from debian_system import DebianSystem
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from wheel_samples import agrees_with_record

pytestmark = [pytest.mark.arm, pytest.mark.timeout(7200)]

ENVIRONMENT = {"TORCHWHEEL_CACHE_DIR": f"{PLACE}/cache"}
MINITORCH = f"{PLACE}/examples/minitorch"
VERSION = "2.14.1"
WITHOUT = ",".join([*QUICK, "flash-attention"])
# What `nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader` prints on a DGX Spark.
NVIDIA_SMI = "#!/bin/sh\necho 'NVIDIA GB10, 12.1'\n"


@pytest.fixture(autouse=True)
def built_anew(system: DebianSystem) -> None:
    """Toolkits and environments are kept, builds are not."""
    shutil.rmtree(system.outside(f"{PLACE}/cache/builds"), ignore_errors=True)
    shutil.rmtree(system.outside(f"{PLACE}/out"), ignore_errors=True)
    system.outside(f"{PLACE}/out").mkdir()


@pytest.fixture
def graphics(system: DebianSystem) -> Iterator[None]:
    """A driver that tells of a GB10, for as long as the test runs."""
    program = system.outside("/usr/local/bin/nvidia-smi")
    program.write_text(NVIDIA_SMI, encoding="utf-8")
    program.chmod(0o755)
    yield
    program.unlink()


def attempt(system: DebianSystem, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return system.attempt(command, folder=PLACE, environment={**ENVIRONMENT, **environment})


def check(system: DebianSystem, *command: str, **environment: str) -> str:
    return system.enter(command, folder=PLACE, environment={**ENVIRONMENT, **environment})


def findings(system: DebianSystem, torchwheel: str, *arguments: str, **environment: str) -> dict[str, str]:
    """The severity of each finding of ``doctor``, by its id."""
    done = attempt(system, torchwheel, "doctor", "--json", *arguments, **environment)
    document: dict[str, Any] = json.loads(done.stdout)
    return {finding["id"]: finding["severity"] for finding in document["findings"]}


def planned(system: DebianSystem, torchwheel: str, *arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(check(system, torchwheel, "plan", "--json", *arguments))
    return document


def the_wheel(system: DebianSystem) -> WheelContents:
    """The one wheel that was built, as seen from this machine."""
    (wheel,) = system.outside(f"{PLACE}/out").glob("*.whl")
    assert agrees_with_record(wheel)
    with zipfile.ZipFile(wheel) as archive:
        libraries = [archive.read(name) for name in archive.namelist() if ".so" in Path(name).suffixes]
    assert {ELFFile(io.BytesIO(library)).get_machine_arch() for library in libraries} == {"AArch64"}
    return inspect_wheel(wheel)


def new_environment(system: DebianSystem, name: str) -> str:
    """The interpreter of a new environment, as seen from inside."""
    check(system, "python3", "-m", "venv", "--clear", f"{PLACE}/{name}")
    return f"{PLACE}/{name}/bin/python"


def install(system: DebianSystem, python: str, *requirements: str) -> None:
    check(system, python, "-m", "pip", "install", "-q", "--no-compile", *requirements)


