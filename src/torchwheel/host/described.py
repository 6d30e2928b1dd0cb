"""Describe another machine by its platform tag, such as ``manylinux_2_28_aarch64``, and its Python's version."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from torchwheel.host.machine import Compiler, Host, Python
from torchwheel.host.this import this_python
from torchwheel.reporting.errors import (
    Problem,
    collect_problems,
    refusal,
    stop_on,
)

_ACCEPTED = (
    "linux_x86_64",
    "linux_aarch64",
    "linux_ppc64le",
    "manylinux_2_28_x86_64",
    "manylinux2014_x86_64",
    "musllinux_1_2_x86_64",
    "win_amd64",
    "win_arm64",
    "macosx_11_0_arm64",
    "macosx_10_15_x86_64",
)

# The glibc behind the manylinux names that carry a year: PEP 513, PEP 571, PEP 599.
_LEGACY_MANYLINUX = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}

_LINUX = re.compile(
    r"(?P<kind>linux|manylinux_(?P<glibc>\d+_\d+)|manylinux1|manylinux2010|manylinux2014|musllinux_(?P<musl>\d+_\d+))"
    r"_(?P<machine>x86_64|aarch64|ppc64le|s390x|riscv64|i686|armv7l)",
    re.ASCII,
)
_WINDOWS = {"win_amd64": "AMD64", "win_arm64": "ARM64", "win32": "x86"}
_MACOS = re.compile(r"macosx_\d+_\d+_(?P<machine>arm64|x86_64)", re.ASCII)

_VERSION = re.compile(r"(3)\.(\d{1,2})(?:\.(\d+))?((?:a|b|rc)\d+)?(t?)", re.ASCII)


@dataclass(frozen=True)
class Platform:
    """A parsed platform tag; ``glibc`` and ``musl`` are None if the tag does not state them."""

    tag: str
    system: str
    machine: str
    glibc: str | None
    musl: str | None = None


def described_host(
    platform_tag: str,
    *,
    python_version: str | None = None,
    python_executable: str = "",
    memory_bytes: int | None = None,
    cores: int | None = None,
    compilers: tuple[Compiler, ...] = (),
    glibc: str | None = None,
    origin: str = "",
) -> Host:
    """Describe a machine by its platform tag: ``win_amd64``, ``linux_aarch64``, ``manylinux_2_28_x86_64``…

    Without ``python_version`` its Python has the version and ABI of this process. ``glibc`` overrides a manylinux
    tag's. ``origin`` is the source of the description.
    """
    problems: list[Problem] = []
    with collect_problems(problems):
        platform = parse_platform(platform_tag, origin)
    with collect_problems(problems):
        if python_version is None:
            python = replace(this_python(), executable=python_executable)
        else:
            python = described_python(python_version, python_executable, origin)
    amounts = (("memory", memory_bytes, "bytes"), ("number of cores", cores, "cores"))
    problems += [
        Problem.of("impossible-amount", origin=origin, name=name, amount=amount, unit=unit)
        for name, amount, unit in amounts
        if amount is not None and amount < 1
    ]
    stop_on(problems)
    return Host(
        platform_tag=platform.tag,
        system=platform.system,
        machine=platform.machine,
        python=python,
        memory_bytes=memory_bytes,
        cores=cores,
        compilers=compilers,
        here=False,
        glibc=glibc or platform.glibc,
        musl=None if glibc else platform.musl,
    )


def parse_platform(text: str, origin: str = "") -> Platform:
    """Read a platform tag, in any case, with ``-`` or ``_``, and with ``windows`` for ``win``.

    The result has the tag of a wheel built on such a machine: ``linux_x86_64`` also for
    ``manylinux_2_28_x86_64``, whose glibc is kept.
    """
    tag = re.sub(r"[-.\s]+", "_", text.strip().lower())
    if tag.startswith("windows"):
        tag = tag.replace("windows", "win", 1)
    if tag in _WINDOWS:
        return Platform(tag, "Windows", _WINDOWS[tag], None)
    if match := _MACOS.fullmatch(tag):
        return Platform(tag, "Darwin", match["machine"], None)
    if match := _LINUX.fullmatch(tag):
        glibc = match["glibc"].replace("_", ".") if match["glibc"] else _LEGACY_MANYLINUX.get(match["kind"])
        musl = match["musl"] and match["musl"].replace("_", ".")
        return Platform(f"linux_{match['machine']}", "Linux", match["machine"], glibc, musl)
    raise refusal("unknown-platform", origin=origin, name=text, forms=", ".join(_ACCEPTED))


def described_python(version: str, executable: str = "", origin: str = "") -> Python:
    """Describe a CPython by its version: ``"3.11"``, ``"3.11.7"``, ``"3.14.0rc1"``, ``"3.13t"``."""
    match = _VERSION.fullmatch(version.strip())
    if match is None:
        raise refusal("unknown-python-version", origin=origin, version=version)
    major, minor, micro, stage, threading = match.groups(default="")
    full = f"{major}.{minor}.{micro or '0'}{stage}"
    return Python(
        executable=executable,
        version=full,
        implementation="cpython",
        implementation_version=full,
        interpreter_tag=f"cp{major}{minor}",
        abi_tag=f"cp{major}{minor}{threading}",
    )
