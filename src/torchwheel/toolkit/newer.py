"""CUDA toolkits that are newer than the table: what their own headers and their own nvcc say of them is believed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from torchwheel.hardware.architecture import Architecture
from torchwheel.host.programs import NoAnswer, ask_program
from torchwheel.toolkit.catalogue import ToolkitRelease, toolkits
from torchwheel.toolkit.host_compiler import HostCompilerLimits, header_conflict, header_limits
from torchwheel.toolkit.model import Toolkit

# --list-gpu-code leaves out the forms with a suffix, which --help names in quotes.
_LISTED = re.compile(r"^sm_(?P<major>\d+)(?P<minor>\d)(?P<suffix>)$", re.MULTILINE)
_IN_HELP = re.compile(r"'sm_(?P<major>\d+)(?P<minor>\d)(?P<suffix>[af])'")
OWN_WORD = "its own headers and nvcc --list-gpu-code"


def newer_release(
    version: str, architectures: Iterable[Architecture], limits: HostCompilerLimits, conflict: str | None
) -> ToolkitRelease | None:
    """A release that is newer than the table, as the toolkit itself describes it; None where it is in the table.

    What no file of a toolkit tells is as in the newest release of the table: the platforms and the C library; a driver
    only within its major version.

    Args:
        version: ``"14.0"``.
        architectures: what its nvcc compiles for; without any nothing is known of it.
        limits: the host compilers that its header lets pass.
        conflict: the first glibc that its headers contradict; empty or None for none.
    """
    compiled, newest = frozenset(architectures), toolkits().newest()
    if not toolkits().is_newer(version) or not compiled:
        return None
    same_major = version.partition(".")[0] == newest.version.partition(".")[0]
    return replace(
        newest,
        version=version,
        architectures=compiled,
        driver_linux=None,
        driver_windows=None,
        minor_version_driver_linux=newest.minor_version_driver_linux if same_major else None,
        minor_version_driver_windows=newest.minor_version_driver_windows if same_major else None,
        gcc_max=limits.gcc_max,
        clang_max=limits.clang_max,
        msvc_range=limits.msvc_range,
        glibc_conflict=conflict or None,
        pypi=False,
        pypi_nvcc=False,
        source=OWN_WORD,
    )


def described_by_itself(toolkit: Toolkit) -> Toolkit:
    """A toolkit of this machine; one that is newer than the table with what its headers and its nvcc say."""
    if toolkit.nvcc is None or not toolkits().is_newer(toolkit.version):
        return toolkit
    try:
        listed = _compiled(toolkit.nvcc, "--list-gpu-code", _LISTED)
        forms = _compiled(toolkit.nvcc, "--help", _IN_HELP)
    except NoAnswer:
        return toolkit
    own = listed | {form for form in forms if form.capability in listed}
    limits = header_limits(toolkit) or HostCompilerLimits()
    return replace(toolkit, own_release=newer_release(toolkit.version, own, limits, header_conflict(toolkit)))


def _compiled(nvcc: str, option: str, pattern: re.Pattern[str]) -> set[Architecture]:
    found = pattern.finditer(ask_program([nvcc, option]).stdout)
    return {Architecture.of(f"{match['major']}.{match['minor']}{match['suffix']}") for match in found}


def release_of(toolkit: Toolkit) -> ToolkitRelease | None:
    """The release of a toolkit: the table's, or of a newer one what it says itself; None where neither is known."""
    return toolkits().release(toolkit.version) or toolkit.own_release
