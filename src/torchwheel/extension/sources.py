"""The source files of extensions: their patterns, and problems with both."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath

from torchwheel.extension.extension_plan import LANGUAGES, Extension, Language, language_of
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.reporting.errors import Problem
from torchwheel.system.paths import is_file

_GLOB = frozenset("*?[")
_STARS = re.compile(r"\*+")
_LOOKED_AT = 20_000
_NAMED = 3
_SKIPPED = frozenset({"build", "dist", "node_modules", "venv", "__pycache__"})


def has_cuda_source(project: Path) -> bool:
    return any(language_of(source) is Language.CUDA for source in islice(_source_files(project), _LOOKED_AT))


def is_pattern(text: str) -> bool:
    return bool(_GLOB & set(text))


def matches_pattern(source: str, pattern: str) -> bool:
    """Whether a path matches a pattern, from the right; ``**`` matches any number of folders."""
    # Not by PurePath.match(), which does not know `**`.
    parts = PurePosixPath(source).parts[::-1]
    # The numbers of parts that the pattern may have matched so far.
    matched = {0}
    for wanted in PurePosixPath(pattern).parts[::-1]:
        if wanted == "**":
            matched = set(range(min(matched, default=len(parts) + 1), len(parts) + 1))
        else:
            matched = {n + 1 for n in matched if n < len(parts) and fnmatchcase(parts[n], wanted)}
    return bool(matched)


def separate_architectures(extension: Extension, source: str) -> ArchitectureList | None:
    """The architectures of a source whose pattern names some; None for the extension's own."""
    by_pattern = extension.source_architectures.items()
    return next((own for pattern, own in by_pattern if matches_pattern(source, pattern)), None)


def find_sources(
    patterns: Iterable[str], project: Path, key: str, origin: str, problems: list[Problem]
) -> list[str]:
    """Expand paths and patterns to source files, relative to the project, each once.

    A path is kept, existing or not. Of a pattern's matches only files in compiled languages count, sorted.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not is_pattern(pattern):
            found[PurePath(pattern).as_posix()] = None
        elif matched := _matching_files(pattern, project):
            found.update(dict.fromkeys(matched))
        else:
            values = {"pattern": pattern, "key": key, "project": project, "languages": ", ".join(LANGUAGES)}
            near = _list_some(_source_files(project))
            problems.append(Problem.of("no-source-matches", origin=origin, near=near, **values))
    return list(found)


def _matching_files(pattern: str, project: Path) -> list[str]:
    parts = PurePath(os.path.normpath(pattern)).parts
    base, parts = (Path(parts[0]), parts[1:]) if os.path.isabs(pattern) else (project, parts)  # noqa: PTH117
    # Python before 3.13 refuses a ** that is not a whole component.
    parts = tuple(part if part == "**" else _STARS.sub("*", part) for part in parts)
    found = (path for path in base.glob(str(PurePath(*parts))) if language_of(path.name) and is_file(path))
    return sorted(Path(os.path.relpath(path, project)).as_posix() for path in found)


def pattern_folders(patterns: Iterable[str], project: Path) -> tuple[Path, ...]:
    """The folders whose changes may add a match of a pattern."""
    folders: dict[Path, None] = {}
    for pattern in patterns:
        if is_pattern(pattern):
            parts = PurePosixPath(pattern).parts
            fixed = next(number for number, part in enumerate(parts) if is_pattern(part))
            base = project.joinpath(*parts[:fixed])
            inner = "**" in parts or fixed < len(parts) - 1
            folders[base] = None
            for folder, names, _ in os.walk(base) if inner else ():
                names[:] = sorted(name for name in names if not name.startswith("."))
                folders.update((Path(folder, name), None) for name in names)
    return tuple(folders)


def unmatched_architectures(
    patterns: Iterable[str], sources: Sequence[str], key: str, origin: str
) -> Iterator[Problem]:
    """Report patterns of sources with separate architectures that match no CUDA source, compiled here or not."""
    cuda = [source for source in sources if language_of(source) is Language.CUDA]
    for pattern in patterns:
        if not any(matches_pattern(source, pattern) for source in cuda):
            values = {"origin": origin, "key": key, "pattern": pattern, "near": _list_some(cuda)}
            yield Problem.of("no-source-matches/architectures", **values)


def _source_files(project: Path) -> Iterator[str]:
    for folder, names, files in os.walk(project):
        # In place, because os.walk() goes on with what is left in this list.
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _SKIPPED)
        for file in sorted(files):
            if language_of(file) is not None:
                yield Path(folder, file).relative_to(project).as_posix()


def _list_some(sources: Iterable[str]) -> str:
    first = list(islice(sources, _NAMED + 1))
    return f"there are {', '.join(first[:_NAMED]) or 'none'}" + (" and others" if first[_NAMED:] else "")
