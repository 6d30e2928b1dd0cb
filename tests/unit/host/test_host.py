"""This machine, and machines that are not this one."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging import tags
from packaging.markers import Marker, default_environment

from refusals import error_of
from torchwheel.host import this
from torchwheel.host.machine import (
    Compiler,
    Host,
    Platform,
    Python,
    described_host,
    described_python,
    marker_environment,
    marker_holds,
    parse_platform,
    this_interpreter,
    this_python,
)
from torchwheel.host.this import this_host
from torchwheel.reporting.errors import Problem, TorchwheelError


@pytest.mark.skipif(os.name != "posix", reason="release and version of Windows are read in another way")
def test_markers_of_this_host_are_those_of_packaging() -> None:
    assert marker_environment(this_host({})) == default_environment()


def test_a_described_host() -> None:
    compiler = Compiler("cxx", "msvc", "C:\\cl.exe", "19.38", "cl:1:1")
    host = described_host(
        "win_amd64",
        python_version="3.11",
        python_executable="C:\\Python311\\python.exe",
        memory_bytes=33_378_976 * 1024,
        cores=24,
        compilers=(compiler,),
    )
    assert host == Host(
        platform_tag="win_amd64",
        system="Windows",
        machine="AMD64",
        python=described_python("3.11", "C:\\Python311\\python.exe"),
        memory_bytes=34_180_071_424,
        cores=24,
        compilers=(compiler,),
        here=False,
    )
    assert host.find_compiler("cxx") == compiler
    assert host.find_compiler("c") is None


def test_a_described_host_has_this_python_unless_told_otherwise() -> None:
    python = described_host("linux_aarch64").python
    assert (python.version, python.abi_tag) == (this_python().version, this_python().abi_tag)
    assert python.executable == ""


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("linux_x86_64", Platform("linux_x86_64", "Linux", "x86_64", None)),
        ("linux-aarch64", Platform("linux_aarch64", "Linux", "aarch64", None)),
        ("Linux_PPC64LE", Platform("linux_ppc64le", "Linux", "ppc64le", None)),
        ("manylinux_2_28_aarch64", Platform("linux_aarch64", "Linux", "aarch64", "2.28")),
        ("manylinux2014_x86_64", Platform("linux_x86_64", "Linux", "x86_64", "2.17")),
        ("manylinux2010_x86_64", Platform("linux_x86_64", "Linux", "x86_64", "2.12")),
        ("manylinux1_i686", Platform("linux_i686", "Linux", "i686", "2.5")),
        ("musllinux_1_2_x86_64", Platform("linux_x86_64", "Linux", "x86_64", None, "1.2")),
        ("win_amd64", Platform("win_amd64", "Windows", "AMD64", None)),
        ("win-arm64", Platform("win_arm64", "Windows", "ARM64", None)),
        ("win32", Platform("win32", "Windows", "x86", None)),
        ("macosx-11.0-arm64", Platform("macosx_11_0_arm64", "Darwin", "arm64", None)),
        ("macosx_10_15_x86_64", Platform("macosx_10_15_x86_64", "Darwin", "x86_64", None)),
    ],
)
def test_platform_tags(tag: str, expected: Platform) -> None:
    assert parse_platform(tag) == expected


FORMS = (
    "linux_x86_64, linux_aarch64, linux_ppc64le, manylinux_2_28_x86_64, manylinux2014_x86_64, "
    "musllinux_1_2_x86_64, win_amd64, win_arm64, macosx_11_0_arm64, macosx_10_15_x86_64"
)


@pytest.mark.parametrize("tag", ["win_x64", "linux-64", "linux_amd64", "", "amiga"])
def test_unknown_platform_tags(tag: str) -> None:
    (problem,) = error_of(parse_platform, tag, "--platform").problems
    assert (problem.id, problem.origin, FORMS in problem.why) == ("unknown-platform", "--platform", True)


def test_every_problem_of_a_description_at_once() -> None:
    wrong = {"python_version": "4", "memory_bytes": 0, "cores": -1}
    error = error_of(described_host, "solaris", **wrong, origin="host.toml")
    assert [(problem.what, problem.origin) for problem in error.problems] == [
        ("'solaris' is not a platform tag that torchwheel can plan for", "host.toml"),
        ("'4' is not a version of Python 3", "host.toml"),
        ("a memory of 0 bytes is impossible", "host.toml"),
        ("a number of cores of -1 cores is impossible", "host.toml"),
    ]
    assert described_host("linux_x86_64", memory_bytes=1, cores=1).cores == 1


def test_glibc_that_is_told_outranks_the_tag() -> None:
    assert described_host("manylinux_2_28_x86_64").glibc == "2.28"
    assert described_host("manylinux_2_28_x86_64", glibc="2.39").glibc == "2.39"


@pytest.mark.parametrize(
    ("tag", "marker", "expected"),
    [
        ("win_amd64", "sys_platform == 'win32'", True),
        ("linux_x86_64", "sys_platform == 'win32'", False),
        ("linux_aarch64", "platform_machine == 'aarch64' and os_name == 'posix'", True),
        ("macosx_11_0_arm64", "sys_platform == 'darwin' and platform_machine == 'arm64'", True),
        ("win_arm64", "platform_machine == 'ARM64'", True),
        ("win_arm64", "platform_system != 'Linux'", True),
        ("win_arm64", "platform_system!='Windows'", False),
        ("linux_x86_64", "python_version >= '3.13' and python_full_version < '3.14'", True),
    ],
)
def test_markers_are_evaluated_for_the_described_host(tag: str, marker: str, expected: bool) -> None:
    environment = marker_environment(described_host(tag, python_version="3.13.1"))
    assert marker_holds(marker, environment) is Marker(marker).evaluate(environment) is expected


@given(st.text())
def test_any_text_is_a_platform_or_a_clear_error(text: str) -> None:
    try:
        found = parse_platform(text)
    except TorchwheelError as error:
        assert [problem.id for problem in error.problems] == ["unknown-platform"]
    else:
        assert parse_platform(found.tag).tag == found.tag


def test_this_python_has_the_tags_that_packaging_gives_it() -> None:
    best = next(tags.sys_tags())
    python = this_python()
    assert (python.interpreter_tag, python.abi_tag) == (best.interpreter, best.abi)
    assert python.executable == this_interpreter()
    assert python.version == platform.python_version()
    assert python.minor_version == ".".join(platform.python_version_tuple()[:2])


@pytest.mark.parametrize(
    ("text", "version", "interpreter", "abi"),
    [
        ("3.11", "3.11.0", "cp311", "cp311"),
        (" 3.11.7 ", "3.11.7", "cp311", "cp311"),
        ("3.14.0rc1", "3.14.0rc1", "cp314", "cp314"),
        ("3.13t", "3.13.0", "cp313", "cp313t"),
        ("3.14.2t", "3.14.2", "cp314", "cp314t"),
    ],
)
def test_described(text: str, version: str, interpreter: str, abi: str) -> None:
    assert described_python(text, "/usr/bin/python3") == Python(
        executable="/usr/bin/python3",
        version=version,
        implementation="cpython",
        implementation_version=version,
        interpreter_tag=interpreter,
        abi_tag=abi,
    )


@pytest.mark.parametrize("text", ["", "3", "2.7", "py311", "3.11.7.1", "cp311", "3.x", "3.\u0661"])
def test_no_version(text: str) -> None:
    assert str(error_of(described_python, text, origin="host.toml")) == (
        Problem.of("unknown-python-version", origin="host.toml", version=text).render()
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there is no plain place there")
def test_temporary_files_lie_where_no_blank_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this, "_PLAIN_PLACE", tmp_path)
    usual = Path("/home/me/builds/x/tmp")
    assert this.temporary_folder(usual) == usual
    found = {this.temporary_folder(Path(f"/home/my {name}/tmp")) for name in ("one", "other")}
    assert len(found) == 2
    plain = tmp_path / f"torchwheel-{os.getuid()}" / "temporary"
    assert {path.parent for path in found} == {plain}
    beside = tmp_path / "my builds"
    with this.temporary_variables(beside, ()) as outer, this.temporary_variables(beside, ["TMP"]) as inner:
        assert inner == {"TEMP": outer["TMP"], "TMPDIR": outer["TMP"]}
        assert [*plain.iterdir()] == [Path(outer["TMPDIR"])]
    assert [*plain.iterdir()] == []
