"""Names of headers: how an ``#include`` spells them, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml

# Folders that compilers look into by themselves: .../include/c++/12/, .../include/.
_IMPLICIT = re.compile(r".*/(?:c\+\+/(?:v?\d[\d.]*/)?|include/)")


@cache
def _data() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("headers.toml"))


def least_part() -> float:
    """Below this part of a source's text, from 0 to 1, a header is not measured alone."""
    return float(_data()["measured"]["least-part"])


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
    return any(name.startswith(p[:-1]) if p.endswith("*") else name == p for p in patterns)


def is_foreign(path: str, system: bool, name: str, project: Path, folder: Path) -> bool:
    """Whether a file is somebody else's.

    Args:
        path: as the compiler spells it.
        system: whether the compiler takes it for a system's header, as it does below ``-isystem`` folders.
        name: as an ``#include`` spells it.
        project: the project's folder.
        folder: where the compiler runs; generated files lie in it.
    """
    if system or matches(name, _data()["libraries"]["headers"]):
        return True
    whole = (folder / path).resolve()
    return not any(whole.is_relative_to(own.resolve()) for own in (project, folder))
