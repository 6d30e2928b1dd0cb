"""Comparing dotted versions of any length."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"\d+")


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: (580, 95, 5) of ``580.95.05``, (3, 28, 3) of ``3.28.3-rc1`` without its end."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in _NUMBERS.findall(leading[0])) if leading else ()


def at_least(version: str, least: str) -> bool:
    """Whether a version is not below another; missing numbers count as zeros."""
    mine, theirs = numbers(version), numbers(least)
    length = max(len(mine), len(theirs))
    return _padded(mine, length) >= _padded(theirs, length)


def _padded(found: tuple[int, ...], length: int) -> tuple[int, ...]:
    return found + (0,) * (length - len(found))
