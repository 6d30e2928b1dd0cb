"""What a shared library takes from others: libraries and symbols, against what its wheel's platform tag promises."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from torchwheel.host.machine import parse_platform
from torchwheel.reporting.errors import Problem
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import parse_numbers

_DATA = Path(__file__).with_name("platform_level.toml")
_SERIES = ("GLIBCXX", "CXXABI")
_LIBC = re.compile(r"(?:many|musl)linux(?:\d{1,4}|_\d{1,4}_\d{1,4})(?=_)")


class LibraryFormat(Enum):
    ELF = "ELF"
    PE = "PE"


class NeededVersion(NamedTuple):
    library: str
    version: str


@dataclass(frozen=True)
class Linkage:
    """What a shared library takes from others.

    Attributes:
        imports: the symbols, as stored, mangled where C++ is; ``#7`` for number 7 of a DLL.
        search_path: the folders in which an ELF file has its libraries looked for, ``$ORIGIN/../lib``.
        passes_on: whether these folders count for the libraries that it loads too: those of DT_RPATH, without RUNPATH.
        fault: why the loader refuses an ELF file by its header; empty where it does not.
    """

    format: LibraryFormat
    libraries: tuple[str, ...]
    imports: tuple[str, ...]
    versions: tuple[NeededVersion, ...] = ()
    search_path: tuple[str, ...] = ()
    passes_on: bool = False
    machine: int = 0
    fault: str = ""

    def newest_versions(self) -> dict[str, str]:
        """The newest version of each series that it needs: ``{"GLIBC": "2.34", "GLIBCXX": "3.4.29"}``."""
        newest: dict[str, str] = {}
        for needed in self.versions:
            series, _, number = needed.version.rpartition("_")
            # Versions without a number, GLIBC_PRIVATE for one, have no order.
            if series and all(part.isdecimal() for part in number.split(".")):
                newest[series] = max(newest.get(series, "0"), number, key=parse_numbers)
        return newest


def platform_problems(linkage: Linkage, platform_tag: str, origin: str = "") -> Iterator[Problem]:
    """Where a library needs newer system libraries than its platform tag promises.

    Only manylinux tags promise anything.
    """
    if not platform_tag.startswith("manylinux"):
        return
    glibc = parse_platform(platform_tag, origin).glibc or "0"
    promised = {"GLIBC": glibc, **_newest_versions(glibc)}
    needed = linkage.newest_versions()
    excess = [
        f"{series}_{needed[series]}"
        for series, newest in promised.items()
        if series in needed and parse_numbers(needed[series]) > parse_numbers(newest)
    ]
    if excess:
        said = ", ".join(f"{series}_{newest}" for series, newest in promised.items())
        values = {"needed": ", ".join(excess), "platform": platform_tag, "promised": said}
        yield Problem.of("newer-than-platform-tag", origin=origin, **values)


def without_libc(tag: str) -> str:
    """A tag, or a tag's platform, without the oldest C library: ``linux_x86_64`` for ``manylinux_2_28_x86_64``."""
    return _LIBC.sub("linux", tag)


@cache
def read_machines() -> Mapping[str, int]:
    machines: Mapping[str, int] = shipped_toml(_DATA)["machines"]
    return machines


def _newest_versions(glibc: str) -> dict[str, str]:
    """Series of symbol versions -> the newest one that a glibc's systems have; none where it is older than all."""
    # What the systems of each manylinux tag have, oldest first: their glibc, and GCC's C++ library.
    levels = shipped_toml(_DATA)["level"]
    reached = [level for level in levels if parse_numbers(level["glibc"]) <= parse_numbers(glibc)]
    return {series: reached[-1][series] for series in _SERIES} if reached else {}
