"""One CUDA toolkit release, and reading the list of them, in which an entry says only what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchwheel.errors import Problem
from torchwheel.hardware.architecture import Architecture
from torchwheel.versions import numbers

# Keys that a release takes over from the one before it, with the type that TOML gives them.
_INHERITED: Mapping[str, type] = {
    "gcc": int,
    "clang": int,
    "msvc": list,
    "glibc": str,
    "platforms": list,
    "pypi": bool,
    "pypi-nvcc": bool,
}
_OWN: Mapping[str, type] = {
    "version": str,
    "architectures": list,
    "adds": list,
    "removes": list,
    "driver-linux": str,
    "driver-windows": str,
    "source": str,
}


@dataclass(frozen=True)
class ToolkitRelease:
    """One minor release of the CUDA toolkit.

    Attributes:
        version: ``"12.9"``.
        architectures: what it makes machine code (SASS) and PTX for.
        driver_linux: the least driver for Linux with every feature of this release, which also compiles its
            PTX; None where NVIDIA names none.
        driver_windows: the same for Windows.
        minor_version_driver_linux: the least driver for Linux that runs a program built with this release
            when it holds machine code for the GPU.
        minor_version_driver_windows: the same for Windows.
        gcc_max: greatest major version of GCC that it accepts as host compiler.
        clang_max: the same of Clang.
        msvc_range: least and greatest ``_MSC_VER`` that it accepts.
        glibc_min: the oldest glibc that it is supported on.
        platforms: platform tags of the machines it runs on.
        pypi: whether PyPI has the package ``cuda-toolkit`` of this version.
        pypi_nvcc: whether that can install nvcc.
        source: the release notes.
    """

    version: str
    architectures: frozenset[Architecture]
    driver_linux: str | None
    driver_windows: str | None
    minor_version_driver_linux: str
    minor_version_driver_windows: str
    gcc_max: int
    clang_max: int
    msvc_range: tuple[int, int]
    glibc_min: str
    platforms: tuple[str, ...]
    pypi: bool
    pypi_nvcc: bool
    source: str

    def compiles(self, architecture: Architecture) -> bool:
        """Whether nvcc of this release compiles for an architecture."""
        return architecture in self.architectures

    def accepts(self, kind: str, version: str) -> bool | None:
        """Whether nvcc takes a host compiler, ``("gcc", "12.2.0")``; None when that cannot be told.

        nvcc compares the major version of GCC and Clang, and all of ``_MSC_VER``: 19.38 is 1938.
        """
        match kind, numbers(version):
            case "gcc", (major, *_):
                return major <= self.gcc_max
            case "clang", (major, *_):
                return major <= self.clang_max
            case "msvc", (major, minor, *_):
                return self.msvc_range[0] <= major * 100 + minor <= self.msvc_range[1]
        return None


def read_releases(
    rows: Sequence[Mapping[str, Any]],
    compatibility: Mapping[str, tuple[str, str]],
    problems: list[Problem],
) -> tuple[ToolkitRelease, ...]:
    """Expand the entries, oldest first; what is wrong with them is added to ``problems``.

    ``compatibility`` holds the least drivers for Linux and Windows of a major version.
    """
    releases: list[ToolkitRelease] = []
    inherited: dict[str, Any] = {}
    for row in rows:
        entry = _Entry(row, problems)
        if not entry.is_sound(first=not inherited):
            continue
        inherited.update({key: row[key] for key in _INHERITED if key in row})
        before = releases[-1] if releases else None
        entry.check_order(before, compatibility)
        architectures = entry.architectures(before.architectures if before else frozenset())
        linux, windows = compatibility.get(entry.version.partition(".")[0], ("", ""))
        releases.append(
            ToolkitRelease(
                version=entry.version,
                architectures=architectures,
                driver_linux=row.get("driver-linux"),
                driver_windows=row.get("driver-windows"),
                minor_version_driver_linux=linux,
                minor_version_driver_windows=windows,
                gcc_max=inherited["gcc"],
                clang_max=inherited["clang"],
                msvc_range=(inherited["msvc"][0], inherited["msvc"][1]),
                glibc_min=inherited["glibc"],
                platforms=tuple(inherited["platforms"]),
                pypi=inherited["pypi"],
                pypi_nvcc=inherited["pypi-nvcc"],
                source=row["source"],
            )
        )
    return tuple(releases)


class _Entry:
    """One entry while it is being checked; every message begins with its release."""

    def __init__(self, row: Mapping[str, Any], problems: list[Problem]) -> None:
        self._row = row
        self._problems = problems
        self.version = str(row.get("version", "without a version"))

    def _wrong(self, what: str) -> None:
        text = f"CUDA {self.version}: {what}"
        self._problems.append(Problem(id="malformed-data", what=text, remedy="correct that entry"))

    def is_sound(self, first: bool) -> bool:
        """Whether the entry has the keys it needs, of the right types, and no others."""
        count = len(self._problems)
        types = {**_INHERITED, **_OWN}
        for key, value in self._row.items():
            if key not in types:
                self._wrong(f"{key!r} is not a key of a release")
            elif not isinstance(value, types[key]) or value == "":
                self._wrong(f"{key!r} must be a {types[key].__name__}, and is {value!r}")
        needed = {"version", "source", *(("architectures", *_INHERITED) if first else ())}
        if missing := sorted(needed - self._row.keys()):
            self._wrong(f"lacks {', '.join(missing)}")
        if "architectures" in self._row and "adds" in self._row:
            self._wrong("has both 'architectures' and 'adds'; keep one of them")
        if len(self._row.get("msvc", (0, 0))) != 2:
            self._wrong("'msvc' must be the least and the greatest _MSC_VER")
        if not all(part.isdigit() for part in self.version.split(".")) or self.version.count(".") != 1:
            self._wrong("the version must be major.minor")
        return len(self._problems) == count

    def check_order(self, before: ToolkitRelease | None, compatibility: Mapping[str, object]) -> None:
        """Versions ascend, and every major version has its least drivers."""
        if before and numbers(self.version) <= numbers(before.version):
            self._wrong(f"stands after {before.version}; releases are sorted, and each is there once")
        major = self.version.partition(".")[0]
        if major not in compatibility:
            self._wrong(f"minor-version-compatibility has no entry {major}")

    def architectures(self, before: frozenset[Architecture]) -> frozenset[Architecture]:
        """What the release compiles, given what the one before it compiled."""
        removes = self._parsed("removes")
        self._report("removes what the release before it did not have", removes - before)
        if "architectures" in self._row:
            listed = self._parsed("architectures")
            self._report("loses, without saying so under 'removes'", before - listed - removes)
            self._report("has under 'removes' what it still lists", removes & listed)
            return listed
        adds = self._parsed("adds")
        self._report("adds what the release before it had", adds & before)
        return before - removes | adds

    def _report(self, what: str, items: frozenset[Architecture]) -> None:
        if items:
            self._wrong(f"{what}: {', '.join(item.dotted for item in sorted(items))}")

    def _parsed(self, key: str) -> frozenset[Architecture]:
        texts: list[str] = self._row.get(key, [])
        parsed = [Architecture.from_dotted(str(text)) for text in texts]
        found = [architecture for architecture in parsed if architecture is not None]
        for text, architecture in zip(texts, parsed, strict=True):
            if architecture is None:
                self._wrong(f"{key!r} has {text!r}, which is not written like '12.0a'")
        self._report(f"{key!r} has twice", frozenset(item for item in found if found.count(item) > 1))
        return frozenset(found)
