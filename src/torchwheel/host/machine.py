"""The description of a machine, this one or another, and PEP 508's markers for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from packaging.markers import Marker, UndefinedEnvironmentName

from torchwheel.versions import major_minor

Language = Literal["c", "cxx"]
CompilerKind = Literal["gcc", "clang", "msvc", "unknown"]
_TITLES = {"gcc": "GCC", "clang": "Clang", "msvc": "MSVC", "unknown": "the compiler"}

# os.name and sys.platform by platform.system().
_NAMES = {
    "Linux": ("posix", "linux"),
    "Darwin": ("posix", "darwin"),
    "Windows": ("nt", "win32"),
}

# platform.python_implementation() by sys.implementation.name.
_IMPLEMENTATIONS = {"cpython": "CPython", "pypy": "PyPy", "graalpy": "GraalVM"}


@dataclass(frozen=True)
class Compiler:
    """One host compiler that a build on this machine would use.

    Attributes:
        kind: the family; ``unknown`` if its name does not show it.
        version: the part that is known without running it (``"12"`` of ``gcc-12``), else empty;
            ``host.compilers.ask_version`` runs the compiler.
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


def marker_environment(host: Host) -> dict[str, str]:
    """Every marker variable except ``extra``.

    The names and their meaning:
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
    """Whether a PEP 508 marker is true.

    Raises:
        ValueError: it is not a marker, or it uses ``extra``.
    """
    try:
        return Marker(marker).evaluate(dict(environment))
    except UndefinedEnvironmentName as error:
        raise ValueError(*error.args) from None
    except RecursionError:
        raise ValueError("its parentheses are nested too deeply") from None
