"""Whose text a preprocessed source is made of, read from its line markers.

Source: https://gcc.gnu.org/onlinedocs/cpp/Preprocessor-Output.html; Clang writes the same, nvcc through them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torchwheel.extension.profile.model import HeaderText, SourceText

_MARKER = re.compile(rb'# \d+ "((?:[^"\\]|\\.)*)"((?: \d)*)')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")

_OWN, _COMPILER = "", "<"
"""The keys of text that is the project's own, and of what the compiler includes by itself."""

IsForeign = Callable[[str, bool], bool]
"""Whether a file, by its path and by whether the compiler takes it for a system's, is not the project's."""


@dataclass(frozen=True)
class _Open:
    """A file that is being read: its path, and the key that its text counts for."""

    path: str
    key: str


def read_source_text(
    lines: Iterable[bytes], is_foreign: IsForeign, name_of: Callable[[str], str]
) -> SourceText:
    """Count the text of a preprocessed source.

    Args:
        lines: of the preprocessor's output.
        is_foreign: which files are not the project's.
        name_of: how an ``#include`` would spell a header's path.
    """
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
    stack = [_Open("", _OWN)]
    for line in lines:
        marker = _MARKER.match(line)
        if marker is not None:
            _follow(stack, _unescaped(marker[1]), marker[2].split(), is_foreign)
            continue
        size = len(line.strip())
        if size:
            key = stack[-1].key
            sizes[key] = sizes.get(key, 0) + size
            counts[key] = counts.get(key, 0) + 1
    named = [key for key in sizes if key not in (_OWN, _COMPILER)]
    headers = tuple(HeaderText(name_of(key), counts[key], sizes[key]) for key in named)
    return SourceText(headers, sum(counts.values()), sum(sizes.values()))


def _follow(stack: list[_Open], path: str, flags: list[bytes], is_foreign: IsForeign) -> None:
    """Enter a file (1), return to one (2), or go on in the file that is open."""
    if b"1" in flags:
        stack.append(_Open(path, _key(stack[-1], path, b"3" in flags, is_foreign)))
    elif b"2" in flags:
        while len(stack) > 1 and stack[-1].path != path:
            stack.pop()
        if len(stack) == 1:
            stack[0] = _Open(path, _OWN)
    elif len(stack) == 1:
        # "<built-in>", "<command-line>" and the source itself follow each other without being entered.
        stack[0] = _Open(path, _OWN)


def _key(above: _Open, path: str, system: bool, is_foreign: IsForeign) -> str:
    """What the text of a file counts for that is included in the file above."""
    if above.key != _OWN:
        return above.key
    if above.path.startswith("<"):
        return _COMPILER
    return path if is_foreign(path, system) else _OWN


def _unescaped(name: bytes) -> str:
    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if len(code) == 3 else code

    return _ESCAPE.sub(plain, name).decode("utf-8", "surrogateescape")
