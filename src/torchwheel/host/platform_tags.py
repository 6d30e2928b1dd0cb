"""Reading platform tags: what system and what machine a tag such as ``manylinux_2_28_aarch64`` means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from torchwheel.errors import Problem, TorchwheelError

_ACCEPTED = (
    "linux_x86_64",
    "linux_aarch64",
    "linux_ppc64le",
    "manylinux_2_28_x86_64",
    "manylinux2014_x86_64",
    "musllinux_1_2_x86_64",
    "win_amd64",
    "win_arm64",
    "macosx_11_0_arm64",
    "macosx_10_15_x86_64",
)

# The glibc behind the manylinux names that carry a year: PEP 513, PEP 571, PEP 599.
_LEGACY_MANYLINUX = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}

_LINUX = re.compile(
    r"(?P<kind>linux|manylinux_(?P<glibc>\d+_\d+)|manylinux1|manylinux2010|manylinux2014|musllinux_\d+_\d+)"
    r"_(?P<machine>x86_64|aarch64|ppc64le|s390x|riscv64|i686|armv7l)",
    re.ASCII,
)
_WINDOWS = {"win_amd64": "AMD64", "win_arm64": "ARM64", "win32": "x86"}
_MACOS = re.compile(r"macosx_\d+_\d+_(?P<machine>arm64|x86_64)", re.ASCII)

# What a machine is called elsewhere, and its name in tags of that system.
_OTHER_NAMES = (
    ("linux", "amd64", "x86_64"),
    ("linux", "x64", "x86_64"),
    ("linux", "arm64", "aarch64"),
    ("win", "x86_64", "amd64"),
    ("win", "x64", "amd64"),
    ("win", "aarch64", "arm64"),
)


@dataclass(frozen=True)
class Platform:
    """What a platform tag says of a machine; ``glibc`` is None where the tag does not tell."""

    tag: str
    system: str
    machine: str
    glibc: str | None


def parse_platform(text: str, origin: str = "") -> Platform:
    """Read a platform tag, in any case, with ``-`` or ``_``.

    The tag of the result is the one that a wheel built on such a machine gets: ``linux_x86_64`` for
    ``manylinux_2_28_x86_64`` too, whose glibc is kept.

    Raises:
        TorchwheelError: no such platform; the message has the accepted forms.
    """
    tag = re.sub(r"[-.\s]+", "_", text.strip().lower())
    if tag in _WINDOWS:
        return Platform(tag, "Windows", _WINDOWS[tag], None)
    if match := _MACOS.fullmatch(tag):
        return Platform(tag, "Darwin", match["machine"], None)
    if match := _LINUX.fullmatch(tag):
        glibc = match["glibc"].replace("_", ".") if match["glibc"] else _LEGACY_MANYLINUX.get(match["kind"])
        return Platform(f"linux_{match['machine']}", "Linux", match["machine"], glibc)
    raise TorchwheelError(_unknown_platform(text, tag, origin))


def _unknown_platform(text: str, tag: str, origin: str) -> Problem:
    for system, other, name in _OTHER_NAMES:
        if tag.startswith(system) and tag.endswith(other):
            tag = tag.removesuffix(other) + name
    nearest = get_close_matches(tag, _ACCEPTED, n=1)
    forms = ", ".join(_ACCEPTED)
    return Problem(
        id="unknown-platform",
        what=f"{text!r} is not a platform tag that torchwheel can plan for",
        remedy=f"did you mean {nearest[0]}?" if nearest else "name the platform by its wheel tag",
        why=f"accepted forms, with other version numbers too: {forms}",
        origin=origin,
    )
