"""Every CUDA toolkit release: what it compiles, with which host compilers, on which platforms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.toolkit.releases import ToolkitRelease, read_releases
from torchwheel.versions import major_minor, read_range

_FILE = Path(__file__).with_name("toolkits.toml")


@dataclass(frozen=True)
class ToolkitCatalogue:
    """The known releases, oldest first.

    Attributes:
        releases: the releases.
        default_roots: where the installers put a release, by ``"linux"`` and ``"windows"``, with
            ``{version}`` in it.
    """

    releases: tuple[ToolkitRelease, ...]
    default_roots: Mapping[str, str]

    def __iter__(self) -> Iterator[ToolkitRelease]:
        return iter(self.releases)

    def __len__(self) -> int:
        return len(self.releases)

    def release(self, version: str) -> ToolkitRelease | None:
        """The release of a version, ``"12.9"`` or ``"12.9.86"``; None when it is not known."""
        minor = major_minor(version)
        return next((release for release in self.releases if release.version == minor), None)

    def newest(self) -> ToolkitRelease:
        """The newest known release."""
        return self.releases[-1]

    def compiling_all(self, architectures: Iterable[Architecture]) -> tuple[ToolkitRelease, ...]:
        """The releases that compile every one of these architectures, oldest first; perhaps none does."""
        wanted = frozenset(architectures)
        return tuple(release for release in self.releases if wanted <= release.architectures)

    def earliest_for(self, architecture: Architecture) -> str | None:
        """The first release that compiles an architecture, None when none does."""
        fitting = self.compiling_all([architecture])
        return fitting[0].version if fitting else None

    def latest_for(self, architecture: Architecture) -> str | None:
        """The last release that compiles an architecture, None when none does."""
        fitting = self.compiling_all([architecture])
        return fitting[-1].version if fitting else None

    def newest_in(self, specifier: str, origin: str = "") -> ToolkitRelease | None:
        """The newest release in a range such as ``">=12.8,<13"``, None when none is in it.

        Raises:
            TorchwheelError: that is no version specifier.
        """
        wanted = read_range(specifier)
        if wanted is None:
            raise TorchwheelError(
                Problem(
                    id="bad-version-range",
                    what=f"{specifier!r} is not a range of CUDA versions",
                    remedy="write it as '>=12.8,<13', '==13.0.*' or '~=12.8'",
                    origin=origin,
                )
            )
        fitting = [release for release in self.releases if wanted.contains(release.version)]
        return fitting[-1] if fitting else None

    def default_root(self, version: str, platform_tag: str) -> str:
        """The folder that the installer puts a release into on a platform (``"win_amd64"``)."""
        minor = major_minor(version)
        system = "windows" if platform_tag.startswith("win") else "linux"
        return self.default_roots[system].format(version=minor)


@cache
def toolkits() -> ToolkitCatalogue:
    """The shipped catalogue, read once."""
    return load_toolkits(_FILE)


def load_toolkits(path: Path) -> ToolkitCatalogue:
    """Read and check a catalogue.

    Raises:
        TorchwheelError: the file is unreadable, or entries contradict themselves or each other; all
            problems at once, each with its entry and the items in question.
    """
    data = read_toml(path)
    problems: list[Problem] = []
    releases = read_releases(data.get("release", []), _compatibility(data, problems), problems)
    roots: dict[str, str] = data.get("default-root", {})
    for system in ("linux", "windows"):
        if "{version}" not in roots.get(system, ""):
            problems.append(_problem(f"default-root.{system} must be a path with {{version}} in it"))
    if not releases:
        problems.append(_problem("there is no release"))
    if problems:
        raise TorchwheelError(
            Problem(problem.id, problem.what, problem.remedy, problem.why, origin=str(path))
            for problem in problems
        )
    return ToolkitCatalogue(releases, roots)


def _compatibility(data: Mapping[str, Any], problems: list[Problem]) -> dict[str, tuple[str, str]]:
    """The least drivers for Linux and Windows, by major version."""
    found = {}
    for major, drivers in data.get("minor-version-compatibility", {}).items():
        if not isinstance(drivers, dict) or drivers.keys() != {"linux", "windows"}:
            problems.append(_problem(f"minor-version-compatibility.{major} must have 'linux' and 'windows'"))
            continue
        found[major] = (str(drivers["linux"]), str(drivers["windows"]))
    return found


def _problem(what: str) -> Problem:
    return Problem(id="malformed-data", what=what, remedy="correct that entry")
