"""What values mean: CMake's truth, and which paths are one path."""

from __future__ import annotations

import os
import re

_DRIVE_OR_SHARE = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_SLASHES = re.compile(r"[\\/]+")

# The constants that CMake names: https://cmake.org/cmake/help/latest/command/if.html
_WORDS = {
    **dict.fromkeys(("1", "ON", "YES", "TRUE", "Y"), True),
    **dict.fromkeys(("0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", ""), False),
}


def truth(value: object) -> bool | None:
    """Whether CMake takes a value for true or false; None if the value is neither."""
    text = str(value).strip().upper()
    if (word := _word(text)) is not None:
        return word
    try:
        return float(text) != 0
    except ValueError:
        return None


def same(one: object, other: object) -> bool:
    """Whether two values of one option are the same, in whatever words: ``ON`` and ``1``, but not 4 and 8."""
    if one == other:
        return True
    words = [_word(str(value).strip().upper()) for value in (one, other)]
    if words != [None, None]:
        return words[0] == words[1]
    # Case counts unless both are spelled as Windows paths: MSVC's /O2 and /o2 are two flags.
    return isinstance(one, str) and isinstance(other, str) and same_path(one, other, windows=False)


def same_path(
    one: str | os.PathLike[str], other: str | os.PathLike[str], *, windows: bool = os.name == "nt"
) -> bool:
    r"""Whether two paths are one path by their spelling: with either slash, doubled or at the end.

    Case does not count on Windows. A plan may be for another platform, so a path with a drive or a share
    (``C:\CUDA``, ``\\server\CUDA``) is Windows's anywhere.
    """
    return _plain(os.fspath(one), windows) == _plain(os.fspath(other), windows)


def _word(text: str) -> bool | None:
    return False if text.endswith("-NOTFOUND") else _WORDS.get(text)


def _plain(path: str, windows: bool) -> str:
    plain = _SLASHES.sub("/", path)
    plain = plain.rstrip("/") or plain
    return plain.casefold() if windows or _DRIVE_OR_SHARE.match(path) else plain
