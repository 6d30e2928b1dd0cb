"""The C and C++ libraries that a shared library needs, against what its wheel's platform tag promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import Problem
from torchwheel.hardware._data_file import DataErrors
from torchwheel.host.platform_tags import parse_platform
from torchwheel.versions import numbers
from torchwheel.wheel.linkage import Linkage

_DATA = Path(__file__).with_name("platform_level.toml")
_SERIES = ("GLIBCXX", "CXXABI")


@dataclass(frozen=True)
class PlatformLevel:
    """What every system of a manylinux tag has.

    Attributes:
        glibc: the tag's glibc.
        newest: series of symbol versions -> the newest one there.
    """

    glibc: str
    newest: Mapping[str, str]


def platform_problems(linkage: Linkage, platform_tag: str, origin: str = "") -> tuple[Problem, ...]:
    """Where a library needs newer system libraries than its platform tag promises.

    Only manylinux tags promise anything.

    Args:
        linkage: what the library takes from others.
        platform_tag: ``manylinux_2_28_x86_64``.
        origin: the library, for messages.

    Raises:
        TorchwheelError: it starts like a manylinux tag and is none.
    """
    if not platform_tag.startswith("manylinux"):
        return ()

    glibc = parse_platform(platform_tag, origin).glibc or "0"
    promised = {"GLIBC": glibc, **_level(glibc).newest}
    needed = linkage.newest_versions()
    excess = [
        f"{series}_{needed[series]}"
        for series, newest in promised.items()
        if series in needed and numbers(needed[series]) > numbers(newest)
    ]
    if not excess:
        return ()
    said = ", ".join(f"{series}_{newest}" for series, newest in promised.items())
    return (
        Problem(
            id="newer-than-platform-tag",
            what=f"it needs {', '.join(excess)}, which not every {platform_tag} has",
            remedy="build on an older system, for example in the image "
            f"quay.io/pypa/{platform_tag}; or tag the wheel for what it needs",
            why=f"the tag promises at most {said}",
            origin=origin,
        ),
    )


def read_levels(path: Path) -> tuple[PlatformLevel, ...]:
    """Read a file of levels, oldest first.

    Raises:
        TorchwheelError: it is malformed.
    """
    document = read_toml(path)
    errors = DataErrors(str(path))
    errors.field(document, "source", str, "the file")
    levels = []
    for row in errors.field(document, "level", list, "the file"):
        entry = f"level {row.get('glibc')}"
        errors.unknown_keys(row, frozenset({"glibc", *_SERIES}), entry)
        newest = {series: errors.field(row, series, str, entry) for series in _SERIES}
        levels.append(PlatformLevel(errors.field(row, "glibc", str, entry), newest))
    errors.raise_if_any()
    return tuple(levels)


@cache
def _levels() -> tuple[PlatformLevel, ...]:
    return read_levels(_DATA)


def _level(glibc: str) -> PlatformLevel:
    """The newest level that a glibc has; for one older than all, a level that says nothing."""
    reached = [level for level in _levels() if numbers(level.glibc) <= numbers(glibc)]
    return reached[-1] if reached else PlatformLevel(glibc, {})
