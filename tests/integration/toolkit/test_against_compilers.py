"""toolkits.toml against NVIDIA's own compilers, for every release whose ptxas PyPI has.

These tests download half a gigabyte and run only when asked for, on x86-64 Linux or Windows:

    TEST_TORCHWHEEL_COMPILERS=1 python -m pytest tests/integration/toolkit/test_against_compilers.py

The compilers (0.7 GB) are kept in the user's cache folder of torchwheel, or in the folder that
TEST_TORCHWHEEL_COMPILERS_CACHE names. Delete what is there to compare with newer updates of the releases.

Where a compiler contradicts the table, the table is wrong. Drivers, glibc and platforms are not compared:
no compiler knows them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.nvidia_packages import (
    HostCompilers,
    allowed_values,
    assembled,
    compilers_of,
    has_toolkit_package,
    host_compilers,
    listed,
    release_of,
)
from torchwheel.hardware.architecture import known_architectures
from torchwheel.toolkit.cuda_releases import ToolkitRelease, read_toolkits
from torchwheel.versions import parse_numbers

ASKED_FOR = "TEST_TORCHWHEEL_COMPILERS"

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        os.environ.get(ASKED_FOR) != "1",
        reason=f"downloads NVIDIA's compilers from PyPI: {ASKED_FOR}=1 pytest {Path(__file__).name}",
    ),
]

# PyPI has no older ptxas.
COMPARED = [release for release in read_toolkits() if parse_numbers(release.version) >= (11, 7)]

every_compared_release = pytest.mark.parametrize("release", COMPARED, ids=lambda release: release.version)
every_release_with_nvcc = pytest.mark.parametrize(
    "release", [release for release in COMPARED if release.pypi_nvcc], ids=lambda release: release.version
)


def parse_numbers(release: ToolkitRelease) -> set[str]:
    """As compilers spell them after ``sm_``: ``"120a"``."""
    return {architecture.sm.removeprefix("sm_") for architecture in release.architectures}


def conceivable_numbers() -> list[str]:
    """Every compute capability of torchwheel's tables in all three forms, existing or not."""
    capabilities = {known.capability for known in known_architectures()}
    capabilities |= {arch.capability for release in read_toolkits() for arch in release.architectures}
    return [
        f"{capability.number}{suffix}" for capability in sorted(capabilities) for suffix in ("", "a", "f")
    ]


@every_compared_release
def test_the_compilers_are_of_that_release(release: ToolkitRelease) -> None:
    compilers = compilers_of(release.version)
    programs = [compilers.ptxas] if compilers.nvcc is None else [compilers.ptxas, compilers.nvcc]
    assert {release_of(program) for program in programs} == {release.version}


@every_compared_release
def test_ptxas_lists_the_architectures(release: ToolkitRelease) -> None:
    ptxas = compilers_of(release.version).ptxas
    assert allowed_values(ptxas, "--gpu-name", "sm") == parse_numbers(release)
    assert allowed_values(ptxas, "--gpu-name", "compute") == parse_numbers(release)


@every_compared_release
def test_ptxas_makes_code_for_them_and_for_no_others(release: ToolkitRelease, tmp_path: Path) -> None:
    ptxas = compilers_of(release.version).ptxas
    assert assembled(ptxas, conceivable_numbers(), tmp_path) == parse_numbers(release)


@every_release_with_nvcc
def test_nvcc_allows_the_same(release: ToolkitRelease) -> None:
    nvcc = compilers_of(release.version).nvcc
    assert nvcc is not None
    assert allowed_values(nvcc, "--gpu-architecture", "compute") == parse_numbers(release)
    assert allowed_values(nvcc, "--gpu-code", "sm") == parse_numbers(release)


@every_release_with_nvcc
def test_nvcc_lists_those_without_a_suffix(release: ToolkitRelease) -> None:
    nvcc = compilers_of(release.version).nvcc
    assert nvcc is not None
    plain = {number for number in parse_numbers(release) if number.isdecimal()}
    assert listed(nvcc, "--list-gpu-arch", "compute") == plain
    assert listed(nvcc, "--list-gpu-code", "sm") == plain


@every_compared_release
def test_the_header_lets_the_same_host_compilers_pass(release: ToolkitRelease) -> None:
    limits = host_compilers(compilers_of(release.version).host_config)
    assert limits == HostCompilers(release.gcc_max, release.clang_max, release.msvc_range)


@every_compared_release
def test_what_pypi_has(release: ToolkitRelease) -> None:
    assert (compilers_of(release.version).nvcc is not None) == release.pypi_nvcc
    assert has_toolkit_package(release.version) == release.pypi
