"""Toolkits newer than the table of releases: what their own headers and their own nvcc say is believed, and said."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from places import MINITORCH
from preflight.contexts import GCC, context
from preflight.contexts import toolkit as described
from toolkit.trees import header, put
from torchwheel.cli.main import main
from torchwheel.hardware.architecture import Architecture
from torchwheel.preflight.host_file import host_file_text, read_host_file
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.toolkit.host_compiler import HostCompilerLimits, nvcc_limit
from torchwheel.toolkit.pypi import requirements_for
from torchwheel.toolkit.read_toolkit import newer_release, release_of, toolkit_at

HOST_CONFIG = """
#if __GNUC__ > 17
#error -- unsupported GNU version! gcc versions later than 17 are not supported!
#endif
#if (__clang_major__ >= 24)
#error -- unsupported clang version!
#endif
"""
ANSWERS = """case $1 in
--list-gpu-code) echo sm_80 sm_90 sm_120 sm_121 sm_140 | tr ' ' '\\n';;
--help) echo "Allowed values: 'sm_80','sm_90','sm_90a','compute_120','sm_50','sm_50a'.";;
esac"""
COMPILED = frozenset(map(Architecture.of, ("8.0", "9.0", "9.0a", "12.0", "12.1", "14.0")))
posix = pytest.mark.skipif(os.name != "posix", reason="the compiler of this test is a script")


def cuda_14(root: Path, nvcc: str = ANSWERS) -> Path:
    """A toolkit of a release that no table has, as far as it is read."""
    put(root / "include/cuda.h", header(14000))
    put(root / "include/crt/host_config.h", HOST_CONFIG)
    put(root / "bin/nvcc", f"#!/bin/sh\n{nvcc}\n").chmod(0o755)
    return root


@posix
def test_what_it_says_itself_is_its_release(tmp_path: Path) -> None:
    release = release_of(toolkit_at(cuda_14(tmp_path / "cuda 14")))
    newest = read_toolkits().newest()
    assert release == replace(
        newest,
        version="14.0",
        architectures=COMPILED,
        driver_linux=None,
        driver_windows=None,
        minor_version_driver_linux=None,
        minor_version_driver_windows=None,
        gcc_max=17,
        clang_max=23,
        msvc_range=None,
        glibc_conflict=None,
        pypi=False,
        pypi_nvcc=False,
        source="its own headers and nvcc --list-gpu-code",
    )


@posix
def test_one_that_does_not_tell_is_not_known(tmp_path: Path) -> None:
    assert release_of(toolkit_at(cuda_14(tmp_path, "exit 3"))) is None


@posix
def test_one_in_the_table_is_not_asked(tmp_path: Path) -> None:
    root = cuda_14(tmp_path, "touch asked")
    put(root / "include/cuda.h", header(12080))
    toolkit = toolkit_at(root)
    assert (release_of(toolkit), toolkit.own_release) == (read_toolkits().release("12.8"), None)


def test_a_driver_is_known_within_the_major_version_alone() -> None:
    newest = read_toolkits().newest()
    later = newer_release(newest.version + "9", COMPILED, HostCompilerLimits(), "2.44")
    assert later is not None
    assert later.minor_version_driver_linux == newest.minor_version_driver_linux
    assert (later.gcc_max, later.glibc_conflict) == (None, "2.44")
    assert nvcc_limit("gcc", later, None) is None


def machine(tmp_path: Path, **changes: object) -> Path:
    """A described machine with CUDA 14.0 and gcc 16."""
    own = newer_release("14.0", COMPILED, HostCompilerLimits(17, 23), None)
    facts = described("14.0", limits=HostCompilerLimits(17, 23))
    facts = replace(facts, toolkit=replace(facts.toolkit, own_release=own))
    host = context(toolkits=(facts,), compiler=replace(GCC, version="16.1.0"), **changes).host  # type: ignore[arg-type]
    path = tmp_path / "machine.toml"
    path.write_text(host_file_text(host), encoding="utf-8")
    assert read_host_file(path).toolkits == host.toolkits
    return path


def found(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> dict[str, dict[str, str]]:
    main(["doctor", str(MINITORCH), "--host", str(path), "--json", *arguments])
    return {one["id"]: one for one in json.loads(capsys.readouterr().out)["findings"]}


def test_doctor_believes_it_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = found(capsys, machine(tmp_path), "-C", "arch=12.0")
    said = findings["toolkit-newer-than-table"]
    assert said["severity"] == "note"
    assert "8.0 9.0 9.0a 12.0 12.1 14.0" in said["why"]
    assert "GCC up to 17, Clang up to 23" in said["why"]
    assert [id for id, one in findings.items() if one["severity"] == "error"] == []


def test_what_it_does_not_compile_for_it_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("-C", "arch=7.5", "-C", "cuda-path=/usr/local/cuda-14.0")
    refused = found(capsys, machine(tmp_path), *arguments)["toolkit-lacks-architecture"]
    assert refused["what"].startswith("CUDA 14.0 in /usr/local/cuda-14.0 cannot compile for sm_75 (7.5)")
    assert refused["why"] == "as its own headers and nvcc --list-gpu-code say"


def test_packages_of_a_newer_release_are_required_as_they_are() -> None:
    (newer,) = requirements_for("14.0")
    assert (newer.partition("[")[0], newer.partition("]")[2]) == ("cuda-toolkit", "==14.0.*")
