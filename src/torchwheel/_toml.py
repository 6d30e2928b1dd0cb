"""Reading TOML, on every supported Python, with errors that name the file and the place."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._files import open_file
from torchwheel.errors import refusal, unreadable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


BYTE_ORDER_MARK = "\ufeff"

_MAX_NAMES = 32
# Python's parser takes time and memory that grow with the square of the names in one key.
_LONG_KEY = re.compile(
    r"""^[ \t]*(?:\[{1,2}[ \t]*)?(?:(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*)"""
    rf"{{{_MAX_NAMES}}}",
    re.MULTILINE,
)
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML text that came from ``origin``.

    Raises:
        TorchwheelError: the text is not TOML, and the message carries the parser's line and column.
    """
    try:
        parsed = tomllib.loads(text)
        nul = unusable_character(parsed)
    # Of numbers with thousands of digits and of tables nested as deep, Python itself complains.
    except (ValueError, RecursionError) as error:
        raise refusal(
            id="malformed-toml",
            what=f"this is not valid TOML: {error}",
            remedy="correct the file at that place",
            origin=origin,
        ) from None
    if nul:
        raise refusal(
            id="malformed-toml",
            what="a text in it holds the character U+0000",
            remedy="leave that character out",
            why="no path, variable or command can hold it",
            origin=origin,
        )
    return parsed


def unusable_character(value: object) -> str:
    """The first character in a text, or in one of a table or list, that no build can use; empty for none.

    With U+0000 the system's calls raise ValueError; what stands for a byte that is not UTF-8 is written to no manifest.
    """
    if isinstance(value, Mapping):
        value = [part for item in value.items() for part in item]
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(unusable_character, value)), "")
    found = _UNUSABLE.search(value) if isinstance(value, str) else None
    return found[0] if found else ""


@cache
def shipped_toml(path: Path) -> dict[str, Any]:
    """What a file of torchwheel's own says, read once; it is not changed."""
    return read_toml(path)


def read_toml(path: Path, max_bytes: int | None = None) -> dict[str, Any]:
    """Read a TOML file; a byte order mark is passed over, but in a pyproject.toml, which other tools read too.

    Args:
        max_bytes: the largest file to read, for one that a stranger may have made; None for any size.

    Raises:
        TorchwheelError: the file cannot be read, is too large, is not UTF-8 or is not TOML.
    """
    try:
        with open_file(path) as stream:
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
        too_long = max_bytes is not None and len(data) > max_bytes
        text = "" if too_long else data.decode()
        if too_long or (max_bytes is not None and _LONG_KEY.search(text)):
            raise refusal(
                id="oversized-toml",
                what=f"it has more than {max_bytes:,} bytes, or a key of more than {_MAX_NAMES} names",
                remedy="leave out what is not needed",
                why="a file that was made for it could be read for hours, and no honest one of this kind is like that",
                origin=str(path),
            )
    except UnicodeDecodeError as error:
        raise refusal(
            id="malformed-toml",
            what=f"byte {error.start} is not UTF-8, which TOML requires",
            remedy="save the file as UTF-8",
            origin=str(path),
        ) from None
    except OSError as error:
        raise unreadable(error, str(path)) from None
    if text.startswith(BYTE_ORDER_MARK) and path.name == "pyproject.toml":
        raise refusal(
            id="malformed-toml",
            what="it begins with a byte order mark, which is not valid TOML",
            remedy="save the file as UTF-8 without a byte order mark (BOM)",
            why="pip, build, uv and the tree's own build backend refuse it",
            origin=str(path),
        )
    return parse_toml(text.removeprefix(BYTE_ORDER_MARK), str(path))
