"""Plain-text tables that fit the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence

_GAP = 2
"""Columns between two cells."""

_NARROWEST = 24
"""Where the last column would have less room than this, it goes below the others."""

_INDENT = 4


def terminal_width() -> int:
    """Columns of the terminal; 80 where the output is no terminal. ``COLUMNS`` beats both."""
    return shutil.get_terminal_size().columns


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """A table whose last column is wrapped to ``width``.

    The other columns are as wide as their widest cell, and no word is broken: names and paths are there to be
    copied.
    """
    cells = [tuple(headers), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in cells), strict=True)]
    indent = sum(widths) + _GAP * len(widths)
    below = width - indent < _NARROWEST
    if below:
        indent = _INDENT
    lines: list[str] = []
    for *first, last in cells:
        head = "".join(cell.ljust(size + _GAP) for cell, size in zip(first, widths, strict=True))
        wrapped = _wrapped(last, width - indent)
        if below:
            lines.append(head.rstrip())
        elif wrapped:
            lines.append(head + wrapped.pop(0))
        else:
            lines.append(head.rstrip())
        lines += [" " * indent + line for line in wrapped]
    return "\n".join(lines)


def facts(rows: Iterable[tuple[str, str]], width: int) -> str:
    """Names and values, two columns without a header; rows without a value are left out."""
    there = [row for row in rows if row[1]]
    size = max((len(name) for name, _ in there), default=0) + _GAP
    lines: list[str] = []
    for name, value in there:
        first, *rest = _wrapped(value, max(width - size, _NARROWEST))
        lines.append(name.ljust(size) + first)
        lines += [" " * size + line for line in rest]
    return "\n".join(lines)


def paragraph(text: str, width: int) -> str:
    """Running text, wrapped."""
    return "\n".join(_wrapped(text, width))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
