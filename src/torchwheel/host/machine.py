"""The description of a machine, this one or another by its platform tag, and PEP 508's markers for it."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from packaging.markers import Marker, UndefinedEnvironmentName, default_environment
from packaging.tags import sys_tags

from torchwheel.reporting.errors import Problem, collect_problems, refusal, stop_on
from torchwheel.versions import major_minor

Language = Literal["c", "cxx"]
CompilerKind = Literal["gcc", "clang", "msvc", "unknown"]
_TITLES = {"gcc": "GCC", "clang": "Clang", "msvc": "MSVC", "unknown": "the compiler"}

# os.name and sys.platform by platform.system().
_NAMES = {"Linux": ("posix", "linux"), "Darwin": ("posix", "darwin"), "Windows": ("nt", "win32")}

# platform.python_implementation() by sys.implementation.name.
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}

_ACCEPTED = (
    "linux_x86_64, linux_aarch64, linux_ppc64le, manylinux_2_28_x86_64, manylinux2014_x86_64, musllinux_1_2_x86_64, "
    "win_amd64, win_arm64, macosx_11_0_arm64, macosx_10_15_x86_64"
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
class Compiler:
    """One host compiler that a build on this machine would use.

    Attributes:
        version: the part that is known without running it (``"12"`` of ``gcc-12``), else empty.
        identity: changes whenever the program changes; empty if there is no such program.
    """

    language: Language
    kind: CompilerKind
    path: str
    version: str
    identity: str
    launcher: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    absent_launcher: str = ""

    @property
    def command(self) -> tuple[str, ...]:
        return (self.path, *self.arguments)

    @property
    def found(self) -> bool:
        return bool(self.identity)

    @property
    def title(self) -> str:
        return " ".join(filter(None, (_TITLES[self.kind], self.version, f"({self.path})")))


@dataclass(frozen=True)
class Python:
    """A Python interpreter, as far as it determines a wheel's name and compatibility."""

    executable: str
    version: str
    implementation: str
    implementation_version: str
    interpreter_tag: str
    abi_tag: str

    @property
    def minor_version(self) -> str:
        return major_minor(self.version)


def is_free_threaded(abi_tag: str) -> bool:
    """Whether an ABI tag is that of a Python without the global interpreter lock."""
    return re.fullmatch(r"cp\d+td?", abi_tag) is not None


@dataclass(frozen=True)
class Host:
    platform_tag: str
    system: str
    machine: str
    python: Python
    memory_bytes: int | None
    cores: int | None
    compilers: tuple[Compiler, ...]
    here: bool
    glibc: str | None = None
    musl: str | None = None
    os_release: str = ""
    os_version: str = ""

    def find_compiler(self, language: Language) -> Compiler | None:
        return next((found for found in self.compilers if found.language == language), None)


def this_interpreter() -> str:
    """The path of this interpreter, by one fixed name, because the commands of one environment use several."""
    usual = Path(sys.executable).with_name("python3")
    with suppress(OSError):
        if usual.samefile(sys.executable):
            return str(usual)
    return sys.executable


def this_python() -> Python:
    # The first tag is the most specific one, which a wheel built here has.
    markers, tag = default_environment(), next(sys_tags())
    return Python(
        executable=this_interpreter(),
        version=markers["python_full_version"],
        implementation=markers["implementation_name"],
        implementation_version=markers["implementation_version"],
        interpreter_tag=tag.interpreter,
        abi_tag=tag.abi,
    )


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
    """Describe a machine by its platform tag; without ``python_version`` it has the Python of this process.

    ``glibc`` overrides a manylinux tag's. ``origin`` is the source of the description.
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

    The result has the tag of a wheel built there: ``linux_x86_64`` also for ``manylinux_2_28_x86_64``.
    """
    tag = re.sub(r"[-.\s]+", "_", text.strip().lower())
    tag = re.sub("^windows", "win", tag)
    if tag in _WINDOWS:
        return Platform(tag, "Windows", _WINDOWS[tag], None)
    if match := _MACOS.fullmatch(tag):
        return Platform(tag, "Darwin", match["machine"], None)
    if match := _LINUX.fullmatch(tag):
        glibc = match["glibc"].replace("_", ".") if match["glibc"] else _LEGACY_MANYLINUX.get(match["kind"])
        musl = match["musl"] and match["musl"].replace("_", ".")
        return Platform(f"linux_{match['machine']}", "Linux", match["machine"], glibc, musl)
    raise refusal("unknown-platform", origin=origin, name=text, forms=_ACCEPTED)


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


def marker_environment(host: Host) -> dict[str, str]:
    """Every marker variable except ``extra``:
    https://packaging.python.org/en/latest/specifications/dependency-specifiers/#environment-markers
    """
    os_name, sys_platform = _NAMES.get(host.system, ("posix", host.system.lower()))
    python = host.python
    return {
        "implementation_name": python.implementation,
        "implementation_version": python.implementation_version,
        "os_name": os_name,
        "platform_machine": host.machine,
        "platform_python_implementation": _IMPLEMENTATIONS.get(python.implementation, python.implementation),
        "platform_release": host.os_release,
        "platform_system": host.system,
        "platform_version": host.os_version,
        "python_full_version": python.version,
        "python_version": python.minor_version,
        "sys_platform": sys_platform,
    }


def marker_holds(marker: str, environment: Mapping[str, str]) -> bool:
    """Whether a PEP 508 marker is true; ValueError if it is none, or uses ``extra``."""
    try:
        return Marker(marker).evaluate(dict(environment))
    except UndefinedEnvironmentName as error:
        raise ValueError(*error.args) from None
    except RecursionError:
        raise ValueError("its parentheses are nested too deeply") from None
