"""What the values of CMake options mean."""

from __future__ import annotations

import re

_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")
_SLASHES = re.compile(r"[\\/]+")

# The constants that CMake names: https://cmake.org/cmake/help/latest/command/if.html
_WORDS = {
    **dict.fromkeys(("1", "ON", "YES", "TRUE", "Y"), True),
    **dict.fromkeys(("0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", ""), False),
}


def truth(value: object) -> bool | None:
    """Whether CMake takes a value for true or false; None if the value is neither."""
    text = str(value).strip().upper()
    if text in _WORDS:
        return _WORDS[text]
    if text.endswith("-NOTFOUND"):
        return False
    try:
        return float(text) != 0
    except ValueError:
        return None


def same(one: object, other: object) -> bool:
    """Whether two values of one option are the same, in whatever words: ``ON`` and ``1``, but not 4 and 8.

    A Windows path is the same in either case, with either slash, and with slashes that a script has doubled.
    """
    if one == other:
        return True
    words = [_WORDS.get(str(value).strip().upper()) for value in (one, other)]
    if None not in words:
        return words[0] == words[1]
    paths = [_plain_path(value) for value in (one, other)]
    return None not in paths and paths[0] == paths[1]


def _plain_path(value: object) -> str | None:
    """A Windows path in the one form that others of the same place come down to, None if it is no such path."""
    if not isinstance(value, str) or _WINDOWS_PATH.match(value) is None:
        return None
    return _SLASHES.sub("/", value).rstrip("/").casefold()
