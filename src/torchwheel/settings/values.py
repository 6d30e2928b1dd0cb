"""What the values of CMake options mean."""

from __future__ import annotations

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
    """Whether two values of one option are the same, in whatever words: ``ON`` and ``1``, but not 4 and 8."""
    words = [_WORDS.get(str(value).strip().upper()) for value in (one, other)]
    return one == other or (None not in words and words[0] == words[1])
