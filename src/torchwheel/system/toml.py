"""Read TOML on every supported Python, with errors that name the file and the place."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import reading, refusal
from torchwheel.system.files import open_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


BYTE_ORDER_MARK = "\ufeff"

_MAX_NAMES = 32
# Python's parser needs time and memory quadratic in the names of one key.
_LONG_KEY = re.compile(
    r"""^[ \t]*(?:\[{1,2}[ \t]*)?(?:(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*)"""
    rf"{{{_MAX_NAMES}}}",
    re.MULTILINE,
)
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


def parse_toml(text: str, origin: str) -> dict[str, Any]:
    try:
        parsed = tomllib.loads(text)
        nul = unusable_character(parsed)
    # Python itself refuses numbers with thousands of digits and deeply nested tables.
    except (ValueError, RecursionError) as error:
        raise refusal("malformed-toml", origin=origin, reason=error) from None
    if nul:
        raise refusal("malformed-toml/nul", origin=origin)
    return parsed


def unusable_character(value: object) -> str:
    """Find the first character in a text, or in a table or list, that no build can use; empty for none.

    With U+0000 system calls raise ValueError; a surrogate escape for a byte that is not UTF-8 cannot be written to a
    manifest.
    """
    if isinstance(value, Mapping):
        value = [part for item in value.items() for part in item]
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(unusable_character, value)), "")
    found = _UNUSABLE.search(value) if isinstance(value, str) else None
    return found[0] if found else ""


@cache
def shipped_toml(path: Path) -> dict[str, Any]:
    """Read a file of torchwheel's own, once; the result must not be changed."""
    return read_toml(path)


def read_toml(path: Path, max_bytes: int | None = None) -> dict[str, Any]:
    """Read a TOML file; a byte order mark is ignored, except in a pyproject.toml, which other tools read too."""
    with reading(path), open_file(path) as stream:
        data = stream.read(-1 if max_bytes is None else max_bytes + 1)
    too_long = max_bytes is not None and len(data) > max_bytes
    try:
        text = "" if too_long else data.decode()
    except UnicodeDecodeError as error:
        raise refusal("malformed-toml/encoding", origin=path, position=error.start) from None
    if too_long or (max_bytes is not None and _LONG_KEY.search(text)):
        raise refusal("oversized-toml", origin=path, most=max_bytes, names=_MAX_NAMES)
    if text.startswith(BYTE_ORDER_MARK) and path.name == "pyproject.toml":
        raise refusal("malformed-toml/byte-order-mark", origin=path)
    return parse_toml(text.removeprefix(BYTE_ORDER_MARK), str(path))


def get_subtable(table: object, *names: str) -> Mapping[str, Any]:
    """The table at these names, such as ``"tool", "scikit-build"``, of unchecked TOML; empty if there is none."""
    for name in names:
        table = table.get(name, {}) if isinstance(table, Mapping) else {}
    return table if isinstance(table, Mapping) else {}
