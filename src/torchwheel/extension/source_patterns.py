"""Patterns of source files: what they match, and what is said where they match nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath

from torchwheel.errors import Problem
from torchwheel.extension.model import Language
from torchwheel.extension.sources import LANGUAGES, language_of

_GLOB = frozenset("*?[")
_LOOKED_AT = 20_000
_NAMED = 3
_SKIPPED = frozenset({"build", "dist", "node_modules", "venv", "__pycache__"})


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern, and not a path."""
    return bool(_GLOB & set(text))


def find_sources(
    patterns: Iterable[str], project: Path, key: str, origin: str, problems: list[Problem]
) -> list[str]:
    """The source files that paths and patterns name, relative to the project, each once.

    A path stays as it is, whether or not there is such a file. Of what a pattern matches, files in languages that are
    compiled count, sorted.

    Args:
        patterns: paths and patterns, relative to the project.
        project: its folder.
        key: the setting's name, for messages.
        origin: where it stands.
        problems: gets one for every pattern that matches nothing.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not is_pattern(pattern):
            found[PurePath(pattern).as_posix()] = None
        elif PurePath(pattern).is_absolute():
            problems.append(_absolute(pattern, key, project, origin))
        else:
            matches = sorted(_matches(pattern, project))
            if not matches:
                problems.append(_no_match(pattern, key, project, origin))
            found.update(dict.fromkeys(matches))
    return list(found)


def has_source(project: Path, suffix: str) -> bool:
    """Whether there is a source file with this suffix in the project, as far as it is worth looking."""
    return any(source.endswith(suffix) for source in islice(_source_files(project), _LOOKED_AT))


def pattern_folders(patterns: Iterable[str], project: Path) -> tuple[Path, ...]:
    """The folders whose content decides what patterns match: a change in one of them may add a source."""
    folders: dict[Path, None] = {}
    for pattern in patterns:
        if is_pattern(pattern):
            parts = PurePosixPath(pattern).parts
            fixed = next(number for number, part in enumerate(parts) if is_pattern(part))
            base = project.joinpath(*parts[:fixed])
            inner = "**" in parts or fixed < len(parts) - 1
            folders.update(dict.fromkeys([base, *(_folders_below(base) if inner else ())]))
    return tuple(folders)


def unmatched_architectures(
    patterns: Iterable[str], sources: Sequence[str], origin: str
) -> Iterator[Problem]:
    """What is wrong with the patterns of ``architectures``: those that match no CUDA source."""
    cuda = [source for source in sources if language_of(source) is Language.CUDA]
    for pattern in patterns:
        if not any(PurePosixPath(source).match(pattern) for source in cuda):
            yield Problem(
                id="no-source-matches",
                what=f'architectures."{pattern}" matches no CUDA source of the extension',
                remedy=f"name sources by their paths or by patterns; {_here(cuda, pattern)}",
                why="a pattern counts from the right: sm90/*.cu is every .cu file in a folder sm90",
                origin=origin,
            )


def _matches(pattern: str, project: Path) -> Iterator[str]:
    for path in project.glob(pattern):
        if language_of(path.name) is not None and path.is_file():
            yield Path(os.path.relpath(path, project)).as_posix()


def _folders_below(base: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(base):
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield from (Path(folder, name) for name in names)


def _no_match(pattern: str, key: str, project: Path, origin: str) -> Problem:
    there = list(islice(_source_files(project), _LOOKED_AT))
    return Problem(
        id="no-source-matches",
        what=f'the pattern "{pattern}" in {key} matches no source file',
        remedy=f"correct it; {_here(there, pattern)}",
        why=f"it is looked for in {project}; source files end in {', '.join(LANGUAGES)}",
        origin=origin,
    )


def _here(sources: Sequence[str], pattern: str) -> str:
    """The files nearest to a pattern, in words."""

    if not sources:
        return "there are none"

    def likeness(source: str) -> float:
        return SequenceMatcher(None, pattern, source).ratio()

    near = sorted(sorted(sources, key=likeness, reverse=True)[:_NAMED])
    more = len(sources) - len(near)
    return f"there are {', '.join(near)}" + (f" and {more} more" if more else "")


def _source_files(project: Path) -> Iterator[str]:
    for folder, names, files in os.walk(project):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _SKIPPED)
        for file in sorted(files):
            if language_of(file) is not None:
                yield Path(folder, file).relative_to(project).as_posix()


def _absolute(pattern: str, key: str, project: Path, origin: str) -> Problem:
    return Problem(
        id="absolute-pattern",
        what=f'the pattern "{pattern}" in {key} is absolute',
        remedy="write it relative to the project, for example csrc/*.cpp; paths without * may be absolute",
        why=f"patterns are looked up in {project}",
        origin=origin,
    )
