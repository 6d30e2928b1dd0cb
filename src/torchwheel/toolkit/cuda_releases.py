"""Every CUDA toolkit release: its architectures, host compilers and platforms, from ``toolkits.toml``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.hardware.architecture import Architecture, is_tegra, known_architectures
from torchwheel.system.toml import read_toml
from torchwheel.versions import at_least, format_span, major_minor, parse_numbers


@dataclass(frozen=True)
class ToolkitRelease:
    """One minor release of the CUDA toolkit.

    Attributes:
        driver_linux: the minimum driver with every feature of this release, which also compiles its PTX.
        minor_version_driver_linux: the minimum driver that runs machine code built with this release.
    """

    version: str
    architectures: frozenset[Architecture]
    driver_linux: str | None
    driver_windows: str | None
    minor_version_driver_linux: str | None
    minor_version_driver_windows: str | None
    gcc_max: int
    clang_max: int
    msvc_range: tuple[int, int]
    glibc_min: str
    glibc_conflict: str | None
    platforms: tuple[str, ...]
    pypi: bool
    pypi_nvcc: bool
    source: str

    def required_driver(self, system: str) -> str | None:
        return self.driver_windows if system == "Windows" else self.driver_linux

    def goes_with_glibc(self, glibc: str | None) -> bool:
        """Whether nvcc starts and its headers compile with a glibc; true if that is unknown."""
        conflicts = self.glibc_conflict and glibc and at_least(glibc, self.glibc_conflict)
        return not conflicts and (glibc is None or at_least(glibc, self.glibc_min))

    def minor_version_driver(self, system: str) -> str | None:
        return self.minor_version_driver_windows if system == "Windows" else self.minor_version_driver_linux


@dataclass(frozen=True)
class ToolkitCatalogue:
    """The known releases, oldest first, and the installers' folder of one, by ``linux`` and ``windows``."""

    releases: tuple[ToolkitRelease, ...]
    default_roots: Mapping[str, str]

    def __iter__(self) -> Iterator[ToolkitRelease]:
        return iter(self.releases)

    def release(self, version: str) -> ToolkitRelease | None:
        minor = major_minor(version)
        return next((release for release in self.releases if release.version == minor), None)

    def newest(self) -> ToolkitRelease:
        return self.releases[-1]

    def is_newer(self, version: str) -> bool:
        return parse_numbers(version, 2) > parse_numbers(self.newest().version, 2)

    def compiling_all(self, architectures: Iterable[Architecture]) -> tuple[ToolkitRelease, ...]:
        wanted = frozenset(architectures)
        return tuple(release for release in self.releases if wanted <= release.architectures)


@cache
def read_toolkits() -> ToolkitCatalogue:
    # The tests check the file, so it is read unchecked.
    data = read_toml(Path(__file__).with_name("toolkits.toml"))
    releases: list[ToolkitRelease] = []
    entry: dict[str, Any] = {}
    architectures: frozenset[Architecture] = frozenset()
    for row in data["release"]:
        # Each entry inherits from the one before it.
        entry |= row
        architectures = expanded_architectures(row, architectures)
        drivers = data["minor-version-compatibility"][row["version"].partition(".")[0]]
        release = ToolkitRelease(
            version=row["version"],
            architectures=architectures,
            driver_linux=row.get("driver-linux"),
            driver_windows=row.get("driver-windows"),
            minor_version_driver_linux=drivers["linux"],
            minor_version_driver_windows=drivers["windows"],
            gcc_max=entry["gcc"],
            clang_max=entry["clang"],
            msvc_range=(entry["msvc"][0], entry["msvc"][1]),
            glibc_min=entry["glibc"],
            glibc_conflict=None if entry["glibc-conflict"] == "none" else entry["glibc-conflict"],
            platforms=tuple(entry["platforms"]),
            pypi=entry["pypi"],
            pypi_nvcc=entry["pypi-nvcc"],
            source=row["source"],
        )
        releases.append(release)
    return ToolkitCatalogue(tuple(releases), data["default-root"])


def expanded_architectures(
    row: Mapping[str, Any], before: frozenset[Architecture]
) -> frozenset[Architecture]:
    """The architectures of an entry's release, given those of the entry before it."""
    if "architectures" in row:
        return _parse_architectures(row["architectures"])
    return before - _parse_architectures(row.get("removes", ())) | _parse_architectures(row.get("adds", ()))


def _parse_architectures(texts: Iterable[str]) -> frozenset[Architecture]:
    return frozenset(map(Architecture.of, texts))


def compiled_by(architecture: Architecture) -> str:
    able = [release.version for release in read_toolkits().compiling_all([architecture])]
    first, last = read_toolkits().releases[0].version, read_toolkits().newest().version
    if not able:
        return f"{architecture.sm} is compiled by no CUDA release from {first} to {last}"
    releases = f"{able[0]} and later" if able[-1] == last else format_span(able)
    known = known_architectures().get(architecture)
    new = known.renamed_to if known else None
    renamed = f"; newer ones call it {new.dotted}: -C arch={new.dotted}" if new else ""
    return f"{architecture.sm} is compiled by CUDA {releases}{renamed}"


def needed_driver(cuda: str | None, gpu: Architecture, system: str) -> str | None:
    """Return the oldest driver that runs programs of a CUDA on a GPU; None where that is not known."""
    release = read_toolkits().release(cuda) if cuda else None
    # A GPU needs at least the driver that came with the first CUDA that compiles for it.
    first = next(iter(read_toolkits().compiling_all([gpu])), None)
    of_gpu = None if first is None or is_tegra(gpu) else first.required_driver(system)
    needed = [one for one in (release.minor_version_driver(system) if release else None, of_gpu) if one]
    return max(needed, key=parse_numbers, default=None)
