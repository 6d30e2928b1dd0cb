"""The C and C++ libraries that a shared library needs, against what its wheel's platform tag promises."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import Problem
from torchwheel.host.described import parse_platform
from torchwheel.versions import numbers
from torchwheel.wheel.linkage import Linkage

_DATA = Path(__file__).with_name("platform_level.toml")
_SERIES = ("GLIBCXX", "CXXABI")


def platform_problems(linkage: Linkage, platform_tag: str, origin: str = "") -> tuple[Problem, ...]:
    """Where a library needs newer system libraries than its platform tag promises.

    Only manylinux tags promise anything.

    Args:
        linkage: what the library takes from others.
        platform_tag: ``manylinux_2_28_x86_64``.

    Raises:
        TorchwheelError: it starts like a manylinux tag and is none.
    """
    if not platform_tag.startswith("manylinux"):
        return ()

    glibc = parse_platform(platform_tag, origin).glibc or "0"
    promised = {"GLIBC": glibc, **_newest(glibc)}
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


@cache
def _levels() -> tuple[Mapping[str, str], ...]:
    """What the systems of each manylinux tag have, oldest first: their glibc, and GCC's C++ library."""
    return tuple(read_toml(_DATA)["level"])


def _newest(glibc: str) -> dict[str, str]:
    """Series of symbol versions -> the newest one that a glibc's systems have; none where it is older than all."""
    reached = [level for level in _levels() if numbers(level["glibc"]) <= numbers(glibc)]
    return {series: reached[-1][series] for series in _SERIES} if reached else {}
