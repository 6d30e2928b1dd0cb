"""Files that assembly embeds (``.incbin``): compilers do not list them in depfiles, so ninja does not watch them.

Source: https://sourceware.org/binutils/docs/as/Incbin.html
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from torchwheel.system.files import atomic_write, inode_time, read_state

_STATE = "embedding.json"
"""In a build folder: the searched source files with size and times, and the names in their directives."""

# In assembly, in a string of inline assembly, and by the macros of https://github.com/graphitemaster/incbin.
_DIRECTIVE = re.compile(
    rb"""\.incbin\s*\\?"([^"\\\n]+)\\?"|\bINCBIN\w*\s*\((?:[^()"\n]*,)?\s*"([^"\n]+)"\s*\)"""
)
_INCLUDED_FOLDER = re.compile(r"""-I ?(?:"([^"\n]+)"|'([^'\n]+)'|((?:\$ |[^\s"'])+))""")
_MAX_BYTES = 1 << 24


def embedded_files(folder: Path, sources: Path, paths: Iterable[str]) -> Mapping[str, Collection[Path]]:
    """Return the files that sources may embed, by the source's path.

    A name is searched for like in the assembler: from ninja's folder, in the folders of ``-I``, and beside the source;
    every candidate is returned, existing or not.

    Args:
        folder: the build folder.
        sources: the folder of the sources; other files are not searched.
        paths: the inputs in ninja's files.
    """
    names = _embedded_names(folder, sources, paths)
    if not names:
        return {}
    with suppress(OSError):
        text = (folder / "build.ninja").read_text(encoding="utf-8", errors="surrogateescape")
        included = {"".join(found).replace("$ ", " ") for found in _INCLUDED_FOLDER.findall(text)}
        places = [folder, *(folder / place for place in sorted(included))]
        return {
            path: {place / name for name in found for place in (*places, (folder / path).parent)}
            for path, found in names.items()
        }
    return {}


def _embedded_names(folder: Path, sources: Path, paths: Iterable[str]) -> dict[str, list[str]]:
    """The names in the directives of source files; a file is read again only if it has changed."""
    state = folder / _STATE
    before = read_state(state)
    now: dict[str, list[int | list[str]]] = {}
    for path, status in _files_below(folder, sources, paths):
        mark: list[int | list[str]] = [status.st_size, status.st_mtime_ns, inode_time(status)]
        known = before.get(path)
        if isinstance(known, list) and known[:3] == mark and len(known) == 4:
            now[path] = known
        else:
            now[path] = [*mark, _names_in(folder / path) if status.st_size <= _MAX_BYTES else []]
    if now != before:
        atomic_write(state, json.dumps(now))
    found = {path: names for path, (*_, names) in now.items() if isinstance(names, list)}
    return {path: list(map(str, names)) for path, names in found.items() if names}


def _files_below(folder: Path, sources: Path, paths: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    real = cache(os.path.realpath)
    root = real(sources) + os.sep
    for path in paths:
        above, name = os.path.split(path)
        place = os.path.join(real(os.path.join(folder, above)), name)  # noqa: PTH118 - a Path of each takes seconds
        if place.startswith(root):
            with suppress(OSError, ValueError):
                yield path, os.stat(place)  # noqa: PTH116


def _names_in(file: Path) -> list[str]:
    try:
        content = file.read_bytes()
    except OSError:
        return []
    found = {os.fsdecode(one or other) for one, other in _DIRECTIVE.findall(content)}
    return sorted(found)
