"""The host compilers that nvcc accepts, and the CUDA releases that MSVC's standard library accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.machine import Compiler
from torchwheel.system.files import read_beginning
from torchwheel.system.toml import shipped_toml
from torchwheel.toolkit.cuda_releases import ToolkitRelease
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.versions import at_least, format_span, parse_numbers

_MSVC_LIBRARIES = Path(__file__).with_name("msvc_library.toml")
_FAMILIES = {"gcc": ("GCC", "g++", "g++"), "clang": ("Clang", "clang", "clang++")}
"""Title, package and program of a compiler family."""
_ENOUGH = 1 << 18
"""Characters of a header to read: math_functions.h declares cospi after a hundred thousand."""

# The math functions that glibc adopted from C23, with the release.
_NEW_IN_GLIBC = {"cospi": "2.41", "rsqrt": "2.42"}

# The preprocessor conditions in crt/host_config.h after which nvcc stops with #error.
_GCC = re.compile(r"#if\s+__GNUC__\s*>\s*(\d+)")
# One vendor's Clang has a separate limit and error, before those for Clang itself.
_CLANG = re.compile(r"#if\s+\(__clang_major__\s*>=\s*(\d+)\)(?![^\n]*\n\s*#\s*error -- unsupported HOS)")
_MSVC = re.compile(r"#if\s+_MSC_VER\s*<\s*(\d+)\s*\|\|\s*_MSC_VER\s*>=\s*(\d+)")


@dataclass(frozen=True)
class HostCompilerLimits:
    """The host compilers that a toolkit's own crt/host_config.h accepts; None if it states no limit."""

    gcc_max: int | None = None
    clang_max: int | None = None
    msvc_range: tuple[int, int] | None = None


@dataclass(frozen=True)
class NvccLimit:
    """The versions of one compiler family that nvcc accepts, as precise as it compares: two numbers for MSVC."""

    kind: str
    least: tuple[int, ...]
    greatest: tuple[int, ...]
    authority: str

    @property
    def sentence(self) -> str:
        greatest = ".".join(map(str, self.greatest))
        if self.kind != "msvc":
            return f"it takes {_FAMILIES[self.kind][0]} up to {greatest}"
        return f"it takes MSVC {'.'.join(map(str, self.least))} to {greatest}"

    def accepts(self, version: str) -> bool | None:
        compared = parse_numbers(version)[: len(self.greatest)]
        return self.least <= compared <= self.greatest if len(compared) == len(self.greatest) else None

    def suggest_fix(self, installed: Iterable[Compiler], newer: Sequence[str]) -> str:
        """Return the advice for a refused compiler, of those installed and of the newer CUDA releases that fit."""
        otherwise = f", or use CUDA {format_span(newer)}" if newer else ""
        if able := [c for c in installed if c.kind == self.kind and self.accepts(c.version)]:
            best = max(able, key=lambda compiler: parse_numbers(compiler.version))
            return f"-C env.CUDAHOSTCXX={best.path}, which is {best.title}"
        if self.kind == "msvc":
            toolset = msvc_toolset(".".join(map(str, self.greatest)))
            return f"install an MSVC toolset up to {toolset} in the Visual Studio Installer{otherwise}"
        package, program = (f"{name}-{self.greatest[0]}" for name in _FAMILIES[self.kind][1:])
        return f"install {package} and say -C env.CUDAHOSTCXX={program}{otherwise}"


def nvcc_limit(kind: str, release: ToolkitRelease, own: HostCompilerLimits | None) -> NvccLimit | None:
    """Return the versions of a compiler family that a release's nvcc accepts; None for an unknown family."""
    table = HostCompilerLimits(release.gcc_max, release.clang_max, release.msvc_range)
    for limits, authority in (
        (own or HostCompilerLimits(), "the toolkit's own crt/host_config.h"),
        (table, "torchwheel's table of CUDA releases"),
    ):
        greatest = {"gcc": limits.gcc_max, "clang": limits.clang_max}.get(kind)
        if greatest is not None:
            return NvccLimit(kind, (0,), (greatest,), authority)
        if limits.msvc_range is not None and kind == "msvc":
            # _MSC_VER 1949 is compiler version 19.49.
            first, last = (divmod(number, 100) for number in limits.msvc_range)
            return NvccLimit(kind, first, last, authority)
    return None


def header_limits(toolkit: Toolkit) -> HostCompilerLimits | None:
    text = _read_header(toolkit, "crt/host_config.h")
    if not text:
        return None
    gcc, clang, msvc = _GCC.search(text), _CLANG.search(text), _MSVC.search(text)
    return HostCompilerLimits(
        gcc_max=int(gcc[1]) if gcc else None,
        clang_max=int(clang[1]) - 1 if clang else None,
        # The upper bound is exclusive: 1950 stands for all of 19.4x.
        msvc_range=(int(msvc[1]), int(msvc[2]) - 1) if msvc else None,
    )


def header_conflict(toolkit: Toolkit) -> str | None:
    """Find the first glibc that conflicts with a toolkit's crt/math_functions.h: empty for none, None without it."""
    text = _read_header(toolkit, "crt/math_functions.h")
    declared = {name: re.search(rf"\b{name}\(double \w+\)\s*([^;\n]*);", text) for name in _NEW_IN_GLIBC}
    if not any(declared.values()):
        return None
    # glibc declares them noexcept, so a declaration without any specifier conflicts.
    plain = (_NEW_IN_GLIBC[name] for name, found in declared.items() if found and not found[1].strip())
    return next(plain, "")


def _read_header(toolkit: Toolkit, name: str) -> str:
    texts = (read_beginning(Path(folder, name), _ENOUGH) for folder in toolkit.include_dirs)
    return next(filter(None, texts), "")


def msvc_toolset(compiler: str) -> str:
    """The toolset of an MSVC compiler version: 14.41 for 19.41.

    Source: https://learn.microsoft.com/cpp/overview/compiler-versions
    """
    return f"14.{compiler.split('.')[1]}"


def can_be_silenced(compiler: Compiler) -> bool:
    """Whether ``-allow-unsupported-compiler`` makes nvcc accept a compiler that it refuses."""
    first = shipped_toml(_MSVC_LIBRARIES)["unsilenced"]["msvc"]
    return compiler.kind != "msvc" or not at_least(compiler.version, first)


def refusing_library(msvc: str, cuda: str) -> Mapping[str, str] | None:
    """Return the row of an MSVC version's standard library if it refuses a CUDA release; None if it accepts it."""
    rows = shipped_toml(_MSVC_LIBRARIES)["library"]
    library: Mapping[str, str] | None = next((one for one in rows if at_least(msvc, one["msvc"])), None)
    return None if library is None or at_least(cuda, library["cuda"]) else library
