"""The files that ninja's steps read and ninja does not watch.

These are named in a command (programs, response files, a linker's scripts), listed by the linker, which GNU's, gold,
lld and mold do (``link_inputs.cmake``), embedded by assembly (``.incbin``), or looked for by ``__has_include``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from torchwheel.host.compiler_cache import LAUNCHER
from torchwheel.host.compilers import LAUNCHERS, SEARCH_PATHS, command_words, holds_flags
from torchwheel.host.ninja import NinjaStep
from torchwheel.host.programs import find_program
from torchwheel.system.files import atomic_write, inode_time, read_beginning, read_state
from torchwheel.system.paths import is_file

# Compilers list neither. In assembly, in a string of inline assembly, by the macros of
# https://github.com/graphitemaster/incbin; and https://gcc.gnu.org/onlinedocs/cpp/_005f_005fhas_005finclude.html
_DIRECTIVE = re.compile(
    rb"""\.incbin\s*\\?"([^"\\\n]+)\\?"|\bINCBIN\w*\s*\((?:[^()"\n]*,)?\s*"([^"\n]+)"\s*\)"""
    rb"""|__has_include(?:_next)?\s*\(\s*["<]([^">\n]+)[">]\s*\)"""
)
_INCLUDED_FOLDER = re.compile(
    r"""-(?:I|isystem|iquote|idirafter) ?(?:"([^"\n]+)"|'([^'\n]+)'|((?:\$ |[^\s"'])+))"""
)
_MAX_BYTES = 1 << 24

_SEPARATOR = re.compile("[=@]")
"""Before a file in a flag: ``@f.txt``, ``-Wl,--version-script=v.map``, ``--options-file=f``."""

_MAX_NESTED = 100
_ENDS_COMMAND = frozenset({"&&", "||", ";", "|"})
_LAUNCHERS = frozenset({"memory_launcher", LAUNCHER})
_LINKED = re.compile(r"--dependency-file[=,](.+)")


class CommandFiles:
    """Finds the files that commands name, with ``environment``'s PATH and the flags that compilers read themselves."""

    def __init__(self, folder: Path, environment: Mapping[str, str], system: str) -> None:
        self._folder, self._system = folder, system
        self._path = environment.get("PATH")
        flags = (value for name, value in sorted(environment.items()) if holds_flags(name))
        self._flags = [
            file for value in flags for file in self._of_words(command_words(value, system), folder)
        ]
        self._known: dict[str, frozenset[str]] = {}

    def of_step(self, step: NinjaStep) -> set[str]:
        """The absolute paths of a step's programs and flag files, and what its linker listed."""
        if step.command not in self._known:
            # Steps of one target differ only in their inputs and outputs.
            self._known[step.command] = frozenset(self._of_command(step.command))
        return {*self._known[step.command], *self._flags}

    def _of_command(self, command: str) -> Iterator[str]:
        place = self._folder
        for words in _split_commands(command_words(command, self._system)):
            if words[:1] == ["cd"]:
                place = place / words[-1]
                continue
            if words and "/" not in words[0] and (program := find_program(words[0], self._path)):
                yield from self._existing(Path(program))
            yield from self._of_words(words, place)

    def _of_words(self, words: Sequence[str], place: Path) -> Iterator[str]:
        pending, seen = [word for word in words if len(word) < 4096], set[str]()
        while pending and len(seen) < _MAX_NESTED * 100:
            word = pending.pop()
            if linked := _LINKED.search(word):
                yield from _read_depfile(place / linked[1], self._folder)
                continue
            for part in {word, *_ends_of_flags(word)} - seen - {""}:
                seen.add(part)
                file = place / part
                if not is_file(file):
                    continue
                yield from self._existing(file)
                if word.startswith("@") or "options-file" in word:
                    pending += command_words(read_beginning(file), self._system)

    def _existing(self, file: Path) -> Iterator[str]:
        # These change no output.
        if file.name not in LAUNCHERS and file.stem not in _LAUNCHERS:
            yield os.path.normpath(file)


def _ends_of_flags(word: str) -> Iterator[str]:
    """Yield the possible files in a word: each end of a flag after a separator."""
    for flag in word.split(","):
        yield flag
        yield from (flag[match.end() :] for match in _SEPARATOR.finditer(flag))


def _split_commands(words: Sequence[str]) -> Iterator[list[str]]:
    """Split a shell's line into its commands, each without torchwheel's own launchers."""
    current: list[str] = []
    for word in (*words, ";"):
        if word in _ENDS_COMMAND:
            yield current
            current = []
        elif Path(word).stem in _LAUNCHERS:
            current = []
        else:
            current.append(word)


def _read_depfile(file: Path, folder: Path) -> Iterator[str]:
    """The inputs in the first rule of a makefile that the linker wrote: one on each line.

    GNU ld does not escape blanks, lld does. Source: write_dependency_file in ld/ldlang.c, and lld/ELF/Driver.cpp.
    """
    lines = read_beginning(file, 1 << 22, "surrogateescape").splitlines()
    for number, line in enumerate(lines):
        path = line.removesuffix("\\").strip().replace("\\ ", " ").replace("$$", "$")
        if number and path:
            yield os.path.normpath(folder / path)
        if not line.endswith("\\"):
            return


def named_by_directives(
    folder: Path, sources: Path, paths: Iterable[str], environment: Mapping[str, str]
) -> Mapping[str, set[str]]:
    """Return the files that source files may embed or look for, by the source's path in ninja's files.

    A name is searched for like in the compiler: from ninja's folder, in the folders of headers, and beside the source;
    every candidate is returned, existing or not.
    """
    paths = list(paths)
    names = _names_in_sources(folder, sources, paths)
    if not names:
        return {}
    text = read_beginning(folder / "build.ninja", 1 << 28, "surrogateescape")
    included = {"".join(found).replace("$ ", " ") for found in _INCLUDED_FOLDER.findall(text)}
    included |= {part for name in SEARCH_PATHS for part in environment.get(name, "").split(os.pathsep)} - {""}
    # The compiler's own folders: those of the headers that it found.
    included |= {os.path.dirname(path) for path in paths if os.path.isabs(path)}  # noqa: PTH117, PTH120
    places = [folder, *(folder / place for place in sorted(included))]
    return {
        path: {
            os.path.normpath(place / name) for name in found for place in (*places, (folder / path).parent)
        }
        for path, found in names.items()
    }


def _names_in_sources(folder: Path, sources: Path, paths: Iterable[str]) -> dict[str, list[str]]:
    """The names in the directives of source files; a file is read again only if it has changed."""
    # In a build folder: the searched source files with size and times, and the names in their directives.
    state = folder / "directives.json"
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
    root = os.path.realpath(sources) + os.sep
    for path, place in real_places(folder, paths):
        if place.startswith(root):
            with suppress(OSError, ValueError):
                yield path, os.stat(place)  # noqa: PTH116


def real_places(folder: Path, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path with its place, in which links to folders are followed."""
    real = cache(os.path.realpath)
    for path in paths:
        above, name = os.path.split(path)
        yield path, os.path.join(real(os.path.join(folder, above)), name)  # noqa: PTH118 - a Path of each takes seconds


def _names_in(file: Path) -> list[str]:
    try:
        content = file.read_bytes()
    except OSError:
        return []
    return sorted({os.fsdecode(b"".join(found)) for found in _DIRECTIVE.findall(content)})
