"""Which headers a source's text is made of, how an ``#include`` spells them, and which are the project's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from torchwheel._toml import shipped_toml
from torchwheel.extension.profile.model import HeaderText, SourceText

_FILE = Path(__file__).with_name("headers.toml")

# Folders that compilers look into by themselves: .../include/c++/12/, .../include/.
_IMPLICIT = re.compile(r"^.*/(?:c\+\+/(?:v?\d[\d.]*/)?|include/)")

# https://gcc.gnu.org/onlinedocs/cpp/Preprocessor-Output.html; Clang writes the same, nvcc through them.
_MARKER = re.compile(rb'# \d+ "((?:[^"\\]|\\.)*)"((?: \d)*)')
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")

_OWN, _COMPILER = "", "<"
"""The keys of text that is the project's own, and of what the compiler includes by itself."""

IsForeign = Callable[[str, bool], bool]
"""Whether a file, by its path and by whether the compiler takes it for a system's, is not the project's."""


def least_part() -> float:
    """Below this part of a source's text, from 0 to 1, a header is not measured alone."""
    return float(shipped_toml(_FILE)["measured"]["least-part"])


def header_name(path: str, include_dirs: Sequence[str]) -> str:
    """How an ``#include`` spells a header's path, by the longest of the folders that it is found in."""
    plain = path.replace("\\", "/")
    folders = sorted((folder.replace("\\", "/").rstrip("/") + "/" for folder in include_dirs), key=len)
    for folder in reversed(folders):
        if plain.startswith(folder):
            return plain[len(folder) :]
    return _IMPLICIT.sub("", plain)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether a header's name matches any pattern: ``torch/*`` is everything below a folder."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_foreign(path: str, system: bool, name: str, project: Path, folder: Path) -> bool:
    """Whether a file belongs to another project.

    Args:
        path: as the compiler spells it.
        system: whether the compiler takes it for a system's header, as it does below ``-isystem`` folders.
        name: as an ``#include`` spells it.
        folder: where the compiler runs; generated files lie in it.
    """
    if system or matches(name, shipped_toml(_FILE)["libraries"]["headers"]):
        return True
    whole = (folder / path).resolve()
    return not any(whole.is_relative_to(own.resolve()) for own in (project, folder))


def read_source_text(
    lines: Iterable[bytes], is_foreign: IsForeign, name_of: Callable[[str], str]
) -> SourceText:
    """Count the text of a preprocessed source by its line markers."""
    sizes: dict[str, int] = {}
    counts: dict[str, int] = {}
    # The files that are open, from the source on: their paths, and the keys that their text counts for.
    stack = [("", _OWN)]
    for line in lines:
        marker = _MARKER.match(line)
        if marker is not None:
            _follow(stack, _unescaped(marker[1]), marker[2].split(), is_foreign)
        elif size := len(line.strip()):
            key = stack[-1][1]
            sizes[key] = sizes.get(key, 0) + size
            counts[key] = counts.get(key, 0) + 1
    named = [key for key in sizes if key not in (_OWN, _COMPILER)]
    headers = tuple(HeaderText(name_of(key), counts[key], sizes[key]) for key in named)
    return SourceText(headers, sum(counts.values()), sum(sizes.values()))


def _follow(stack: list[tuple[str, str]], path: str, flags: list[bytes], is_foreign: IsForeign) -> None:
    """Enter a file (1), return to one (2), or go on in the file that is open."""
    if b"1" in flags:
        above, key = stack[-1]
        if key == _OWN and above.startswith("<"):
            key = _COMPILER
        elif key == _OWN and is_foreign(path, b"3" in flags):
            key = path
        stack.append((path, key))
        return
    if b"2" in flags:
        while len(stack) > 1 and stack[-1][0] != path:
            stack.pop()
    if len(stack) == 1:
        # "<built-in>", "<command-line>" and the source itself follow each other without being entered.
        stack[0] = (path, _OWN)


def _unescaped(name: bytes) -> str:
    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if len(code) == 3 else code

    return _ESCAPE.sub(plain, name).decode("utf-8", "surrogateescape")
