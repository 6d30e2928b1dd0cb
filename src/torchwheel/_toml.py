"""Reading TOML, on every supported Python, with errors that name the file and the place."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.errors import refusal, unreadable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


BYTE_ORDER_MARK = "\ufeff"


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML text that came from ``origin``.

    Raises:
        TorchwheelError: the text is not TOML; the message carries the parser's line and column.
    """
    try:
        parsed = tomllib.loads(text)
        nul = holds_nul(parsed)
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


def holds_nul(value: object) -> bool:
    """Whether a text, or one in a table or list, holds U+0000; with it, the system's calls raise ValueError."""
    if isinstance(value, Mapping):
        return any(holds_nul(part) for item in value.items() for part in item)
    if isinstance(value, (list, tuple)):
        return any(map(holds_nul, value))
    return isinstance(value, str) and "\0" in value


@cache
def shipped_toml(path: Path) -> dict[str, Any]:
    """What a file of torchwheel's own says, read once; it is not changed."""
    return read_toml(path)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a byte order mark is passed over, but in a pyproject.toml, which other tools read too.

    Raises:
        TorchwheelError: the file cannot be read, is not UTF-8, or is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
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
