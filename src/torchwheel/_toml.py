"""Reading TOML, on every supported Python, with errors that name the file and the place."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._files import open_file
from torchwheel.errors import TorchwheelError, refusal, unreadable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


BYTE_ORDER_MARK = "\ufeff"

# A file of a stranger's project is read before anything else is known of it, and parsing a megabyte can take 1.5 s.
MOST_BYTES = 1 << 18
MOST_ENTRIES = 2_000
"""Keys and tables in what torchwheel reads itself: each may be a mistake, for which the nearest name is looked for."""
_MOST_NAMES = 32
# The parser takes a time that grows with the square of the names in one key.
_LONG_KEY = re.compile(
    r"""^[ \t]*(?:\[{1,2}[ \t]*)?(?:(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*)"""
    rf"{{{_MOST_NAMES}}}",
    re.MULTILINE,
)
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    """Parse TOML text that came from ``origin``.

    Raises:
        TorchwheelError: the text is not TOML, and the message carries the parser's line and column; or it is larger
            than any that people write.
    """
    if len(text) > MOST_BYTES:
        raise _oversized(f"it has more than {MOST_BYTES:,} bytes", origin)
    if _LONG_KEY.search(text):
        raise _oversized(f"a key in it has more than {_MOST_NAMES} names", origin)
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


def bounded(content: Any, origin: str) -> Any:
    """What was read, if it is no more than a person writes.

    Raises:
        TorchwheelError: it has more keys.
    """
    if _entries(content) > MOST_ENTRIES:
        raise _oversized(f"it has more than {MOST_ENTRIES:,} keys and tables that are torchwheel's", origin)
    return content


def _entries(value: object) -> int:
    if isinstance(value, Mapping):
        return len(value) + sum(map(_entries, value.values()))
    if isinstance(value, list):
        return sum(isinstance(item, Mapping) + _entries(item) for item in value)
    return 0


def _oversized(what: str, origin: str) -> TorchwheelError:
    return refusal(
        id="oversized-toml",
        what=what,
        remedy="leave out what is not needed",
        why="a small file can be made to be read for hours, so what nobody writes by hand is not read",
        origin=origin,
    )


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


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a byte order mark is passed over, but in a pyproject.toml, which other tools read too.

    Raises:
        TorchwheelError: the file cannot be read, is not UTF-8, is not TOML, or is larger than any that people write.
    """
    try:
        with open_file(path) as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise _oversized(f"it has more than {MOST_BYTES:,} bytes", str(path))
        text = data.decode()
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
