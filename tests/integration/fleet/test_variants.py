"""Wheel variants of a site, chosen by the real uv for GPUs that are described to it.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.version import Version

from fleet.sites import SiteRecipe, fleet_of
from index.web import serving
from torchwheel.fleet.site import Choices, update_site
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.index.choice import Machine, choose_wheel
from torchwheel.wheel import variant
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.variant import properties_of

UV = shutil.which("uv", path=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
FORCED_GPU, FORCED_DRIVER = (
    "NV_VARIANT_PROVIDER_FORCE_SM_ARCH",
    "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION",
)


def reads_variants() -> bool:
    """Whether uv is one that knows this form of variants."""
    if UV is None:
        return False
    said = subprocess.run([UV, "--version"], capture_output=True, encoding="utf-8", check=True).stdout
    return Version(said.split()[1]) >= Version("0.13.9")


real_uv = pytest.mark.skipif(not reads_variants(), reason="uv 0.13.9 or newer is not here")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A web server for the site in the test's folder."""
    with serving(tmp_path / "site") as (found, _):
        yield found


def installed(folder: Path, address: str, machine: Mapping[str, str], *more: str, name: str = "torch") -> str:
    """The version that a module has of itself, once uv installed it."""
    target = folder / "installed"
    shutil.rmtree(target, ignore_errors=True)
    kept = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR") if key in os.environ}
    done = subprocess.run(
        [
            str(UV), "pip", "install", "--preview-features", "wheel-variants", "--index-url", f"{address}/simple",
            "--python", sys.executable, "--target", str(target), "--no-cache", name, *more,
        ],
        env={**kept, "UV_NO_CONFIG": "1", **machine},
        capture_output=True,
        encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = {}
    exec((target / name / "version.py").read_text(), found)
    assert (target / f"{name}-{Version(found['__version__']).public}.dist-info").is_dir()
    return found["__version__"].partition("+")[2]


def forced(gpu: str, driver: str = "13.1") -> dict[str, str]:
    return {FORCED_GPU: gpu, FORCED_DRIVER: driver}


@real_uv
def test_every_machine_takes_its_own(tmp_path: Path, address: str) -> None:
    update_site(tmp_path / "site", fleet_of(tmp_path / "dist"), {}, Choices(variants=True))
    machines = {
        "9.0": "cu130.sm90",
        "12.0": "cu130.sm120",
        "12.1": "cu130.sm120",
        "8.6": "cpu",
        "10.0": "cpu",
    }
    assert {gpu: installed(tmp_path, address, forced(gpu)) for gpu in machines} == machines
    assert installed(tmp_path, address, forced("12.0", driver="12.8")) == "cpu"
    assert installed(tmp_path, address, {}) == "cpu"


@real_uv
def test_uv_takes_what_it_is_believed_to_take(tmp_path: Path, address: str) -> None:
    """The model of NVIDIA's provider in wheel/variant.py against the one that uv has built in."""
    made = {
        "cu130.sm80": ["sm80"],
        "cu130.sm86.ptx86": ["sm86", "ptx86"],
        "cu130.sm70.ptx90": ["sm70", "ptx90"],
    }
    for label, code in made.items():
        shutil.rmtree(tmp_path / "site", ignore_errors=True)
        cpu = SiteRecipe("2.14.1+cpu", code=()).write(tmp_path / "dist")
        wheel = SiteRecipe(f"2.14.1+{label}", code=code).write(tmp_path / "dist")
        update_site(tmp_path / "site", [cpu, wheel], {}, Choices(variants=True))
        values = properties_of(inspect_wheel(wheel), "13.0")[0] or {}
        for gpu in ("7.0", "8.0", "8.6", "9.0", "12.0"):
            believed = variant._installer_takes(values["sm_arch"], Architecture.of(gpu))
            assert installed(tmp_path, address, forced(gpu)) == (label if believed else "cpu"), (label, gpu)


@pytest.mark.long
@real_uv
def test_uv_and_get_agree_on_every_part_of_a_fleet(tmp_path: Path) -> None:
    """And neither takes the wheel for the CPU where one is for the GPU."""
    labels: dict[str, tuple[str, ...]] = {"cpu": (), "cu130.sm80": ("sm80",), "cu130.sm90": ("sm90",)}
    wheels = [
        SiteRecipe(f"{version}+{label}", code=code).write(tmp_path / "dist")
        for version in ("2.14.1", "2.15.0")
        for label, code in labels.items()
    ]
    tags = {tag: place for place, tag in enumerate(sys_tags())}
    for part in (part for count in range(1, 7) for part in combinations(wheels, count)):
        site = tmp_path / "site"
        shutil.rmtree(site, ignore_errors=True)
        listed = update_site(site, part, {}, Choices(variants=True)).wheels
        for gpu in ("", "9.0"):
            gpus = (NamedGpu(gpu, Architecture.of(gpu)),) if gpu else ()
            machine = Machine(gpus, platform.python_version(), tags, lambda _cuda: True)
            got = choose_wheel(listed, Requirement("torch"), machine, without_gpu=True).wheel
            assert (got and got.variant and got.variant.name) == selected(site, forced(gpu) if gpu else {}), (
                part
            )
            if gpu and any("sm90" in wheel.name for wheel in part):
                assert got is not None and got.code


def selected(site: Path, machine: Mapping[str, str]) -> str | None:
    """The file that uv would install; None for none."""
    command = [
        str(UV),
        "pip",
        "install",
        "--dry-run",
        "-v",
        "--preview-features",
        "wheel-variants",
        "--no-cache",
    ]
    where = [
        "--index-url",
        f"{site.as_uri()}/simple",
        "--python",
        sys.executable,
        "--target",
        str(site / "x"),
    ]
    kept = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR") if key in os.environ}
    environment = {**kept, "UV_NO_CONFIG": "1", **machine}
    done = subprocess.run([*command, *where, "torch"], env=environment, capture_output=True, encoding="utf-8")
    found = re.findall(r"Selecting: torch==.* \((\S+\.whl)\)", done.stderr)
    assert bool(found) is (done.returncode == 0), done.stderr
    return found[0] if found else None
