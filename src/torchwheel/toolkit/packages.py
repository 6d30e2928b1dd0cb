"""CUDA toolkits as PyPI has them: ``packages.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware._data_file import DataErrors
from torchwheel.versions import major_minor

_FILE = Path(__file__).with_name("packages.toml")
_DISTRIBUTION = "cuda-toolkit"
_KEYS = frozenset({"version", "extras", "adds", "nvcc", "platforms", "source"})


@dataclass(frozen=True)
class PackagedRelease:
    """One CUDA release on PyPI.

    Attributes:
        version: ``"13.0"``.
        extras: the extras of ``cuda-toolkit``.
        nvcc: whether they bring nvcc.
        platforms: wheel tags of the machines that there are packages for.
        source: where that is from.
    """

    version: str
    extras: frozenset[str]
    nvcc: bool
    platforms: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class PackageCatalogue:
    """What PyPI has.

    Attributes:
        releases: oldest first.
        distributions: extra -> distribution, of all that compiling PyTorch and its extensions needs.
        compiler: those of the extras without which nvcc does not compile.
        linux_only: those of the extras that are empty on Windows.
    """

    releases: tuple[PackagedRelease, ...]
    distributions: Mapping[str, str]
    compiler: tuple[str, ...]
    linux_only: tuple[str, ...]

    def release(self, version: str) -> PackagedRelease | None:
        """The release of a version, ``"13.0"`` or ``"13.0.88"``; None if PyPI does not have it."""
        minor = major_minor(version)
        return next((release for release in self.releases if release.version == minor), None)

    def with_nvcc(self, platform_tag: str) -> tuple[PackagedRelease, ...]:
        """The releases that bring nvcc for a platform, oldest first."""
        return tuple(r for r in self.releases if r.nvcc and platform_tag in r.platforms)

    def needed(self, platform_tag: str) -> frozenset[str]:
        """The distributions that a complete toolkit is made of on a platform."""
        absent = self.linux_only if platform_tag.startswith("win") else ()
        return frozenset(name for extra, name in self.distributions.items() if extra not in absent)

    def needed_to_compile(self) -> frozenset[str]:
        """The distributions without which nvcc does not compile."""
        return frozenset(self.distributions[extra] for extra in self.compiler)


def requirements_for(version: str) -> tuple[str, ...]:
    """What to require of PyPI for a toolkit of a release, ``"13.0"``, as of PEP 508.

    Raises:
        TorchwheelError: PyPI does not have it, or not with nvcc.
    """
    release = packages().release(version)
    if release is None or not release.nvcc:
        raise TorchwheelError(without_nvcc(version))
    return (f"{_DISTRIBUTION}[{','.join(packages().distributions)}]=={release.version}.*",)


def without_nvcc(version: str, origin: str = "") -> Problem:
    """PyPI cannot serve a release, because it has no nvcc of it; what to do instead."""
    release = packages().release(version)
    able = [r.version for r in packages().releases if r.nvcc]
    minor = major_minor(version)
    if release is None:
        what = f"PyPI has no {_DISTRIBUTION} {minor}"
        why = f"it is known to have nvcc of CUDA {able[0]} to {able[-1]}"
    else:
        what = f"nvcc of CUDA {minor} cannot be installed from PyPI"
        why = f"its packages for CUDA {minor} hold ptxas and headers alone; nvcc is in those of {able[0]} and later"
    return Problem(
        id="no-nvcc-on-pypi",
        what=what,
        remedy=f"install NVIDIA's CUDA {minor} toolkit (https://developer.nvidia.com/cuda-toolkit-archive) and name "
        f"it with -C cuda-path=, or use a PyTorch with CUDA {able[0]} or later",
        why=why,
        origin=origin,
    )


def not_for_platform(version: str, platform_tag: str, origin: str = "") -> Problem:
    """PyPI has nvcc of a release, but not for a platform."""
    release = packages().release(version)
    platforms = ", ".join(release.platforms) if release else "no platform"
    return Problem(
        id="no-packages-for-platform",
        what=f"PyPI has no CUDA {version} for {platform_tag}",
        remedy="install the toolkit with NVIDIA's installer and name it with -C cuda-path=",
        why=f"there are packages for {platforms}",
        origin=origin,
    )


@cache
def packages() -> PackageCatalogue:
    """The shipped catalogue."""
    return load_packages(_FILE)


def load_packages(path: Path) -> PackageCatalogue:
    """Read and check a catalogue.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    data = read_toml(path)
    errors = DataErrors(str(path))
    errors.field(data, "source", str, "the file")
    distributions: Mapping[str, str] = errors.field(data, "distributions", dict, "the file")
    catalogue = PackageCatalogue(
        releases=_releases(data.get("release", []), errors),
        distributions=distributions,
        compiler=errors.strings(data.get("compiler", {}), "extras", "compiler"),
        linux_only=errors.strings(data.get("linux-only", {}), "extras", "linux-only"),
    )
    _check(catalogue, errors)
    errors.raise_if_any()
    return catalogue


def _releases(rows: list[dict[str, Any]], errors: DataErrors) -> tuple[PackagedRelease, ...]:
    releases: list[PackagedRelease] = []
    inherited: dict[str, Any] = {}
    for row in rows:
        entry = f"release {row.get('version')!r}"
        errors.unknown_keys(row, _KEYS, entry)
        inherited = {**inherited, **row}
        before = releases[-1].extras if releases and "extras" not in row else frozenset()
        added = errors.strings(row, "adds", entry) + errors.strings(row, "extras", entry)
        if repeated := before.intersection(added):
            errors.add(f"{entry}: adds what the release before it had: {', '.join(sorted(repeated))}")
        releases.append(
            PackagedRelease(
                version=errors.field(row, "version", str, entry),
                extras=before | frozenset(added),
                nvcc=errors.field(inherited, "nvcc", bool, entry, default=False),
                platforms=errors.strings(inherited, "platforms", entry),
                source=errors.field(row, "source", str, entry),
            )
        )
    return tuple(releases)


def _check(catalogue: PackageCatalogue, errors: DataErrors) -> None:
    for name in (*catalogue.compiler, *catalogue.linux_only):
        if name not in catalogue.distributions:
            errors.add(f"{name!r} has no distribution")
    for release in catalogue.releases:
        missing = catalogue.distributions.keys() - release.extras
        if release.nvcc and missing:
            errors.add(f"release {release.version!r}: has no extra {', '.join(sorted(missing))}")
