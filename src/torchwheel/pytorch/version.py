"""PyTorch's release numbers, as far as they matter here: major, minor, patch."""

from __future__ import annotations

import re
from collections.abc import Iterable

ReleaseNumber = tuple[int, int, int]

_LEADING_NUMBER = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_DOTTED = re.compile(r"\d+(?:\.\d+)*")


def release_number(version: str) -> ReleaseNumber | None:
    """The release that a version belongs to: (2, 6, 0) for ``2.6``, ``2.6.0a0+git1eba9b3``, ``2.6.0+cu126``.

    None if the text does not begin with a major and a minor number.
    """
    match = _LEADING_NUMBER.match(version)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def nearest_patch(version: str, known: Iterable[str]) -> str | None:
    """The known release of the same minor version that a version is nearest to.

    That is the last one not later than it (``2.14`` alone means the last there is), else the first; None if
    no release of that minor version is known.
    """
    match = _LEADING_NUMBER.match(version)
    if match is None:
        return None
    minor = (int(match[1]), int(match[2]))
    patches = sorted(number[2] for number in map(release_number, known) if number and number[:2] == minor)
    if not patches:
        return None
    not_later = [patch for patch in patches if match[3] is None or patch <= int(match[3])]
    return f"{minor[0]}.{minor[1]}.{not_later[-1] if not_later else patches[0]}"


def is_dotted(text: str) -> bool:
    """Whether the text is numbers with dots between them, such as ``12.6`` or ``9.24.0.43``."""
    return _DOTTED.fullmatch(text) is not None


def dotted_number(text: str, parts: int = 2) -> tuple[int, ...]:
    """The first ``parts`` numbers of a dotted version, zeros where there are fewer: (12, 6) for ``12.6.85``.

    Raises:
        ValueError: the text is no dotted version.
    """
    numbers = [int(part) for part in text.split(".")]
    return tuple((numbers + [0] * parts)[:parts])
