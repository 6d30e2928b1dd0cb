"""The source files of extensions: their patterns, and problems with both."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath

from torchwheel.extension.extension_plan import LANGUAGES, Extension, Language, language_of
from torchwheel.reporting.errors import Problem, find_nearest
from torchwheel.system.paths import is_file

_GLOB = frozenset("*?[")
_UNQUOTABLE = re.compile(r'[\x00-\x1f\x7f";|`\\]|\$(?:\w*\{|[<(])')
_STARS = re.compile(r"\*+")
_LOOKED_AT = 20_000
_COMPARED = 1_000
_NAMED = 3
# The time for a comparison grows with the square of the length.
_LONGEST_COMPARED = 200
_SKIPPED = frozenset({"build", "dist", "node_modules", "venv", "__pycache__"})


def find_unquotable(text: str) -> str:
    """The first character or text of a path that CMake or ninja would misread; empty for none."""
    match = _UNQUOTABLE.search(text)
    return match[0] if match else ""


def has_cuda_source(project: Path) -> bool:
    """Whether there is a CUDA source in the project, with a limited search."""
    return any(language_of(source) is Language.CUDA for source in islice(_source_files(project), _LOOKED_AT))


def ends_of_flag(flag: str) -> Iterator[str]:
    """Yield the possible paths in a flag such as ``--version-script=PATH`` or ``@PATH``, the longest first."""
    yield flag
    yield from (flag[match.end() :] for match in re.finditer("[=@]", flag))


def is_pattern(text: str) -> bool:
    return bool(_GLOB & set(text))


def is_source_file(source: str, project: Path) -> bool:
    """Whether a source exists at the path in commands, where ``..`` is resolved without the file system."""
    try:
        return is_file(Path(os.path.normpath(project / source)))
    except OSError:  # such as a name that is too long
        return False


def matches_pattern(source: str, pattern: str) -> bool:
    """Whether a path matches a pattern, from the right; ``**`` matches any number of folders."""

    # Not by PurePath.match(), which does not know `**`.
    wanted = _from_the_right(pattern)

    def with_skipped(places: Iterable[int]) -> set[int]:
        """The reachable positions in the pattern, including those after an empty ``**``."""
        reached = set(places)
        for number, part in enumerate(wanted):
            if number in reached and part == "**":
                reached.add(number + 1)
        return reached

    places = with_skipped({0})
    for part in _from_the_right(source):
        if not places or len(wanted) in places:
            break
        places = with_skipped(
            place if wanted[place] == "**" else place + 1
            for place in places
            if wanted[place] == "**" or fnmatchcase(part, wanted[place])
        )
    return len(wanted) in places


@cache
def _from_the_right(path: str) -> tuple[str, ...]:
    return PurePosixPath(path).parts[::-1]


def find_sources(
    patterns: Iterable[str], project: Path, key: str, origin: str, problems: list[Problem]
) -> list[str]:
    """Expand paths and patterns to source files, relative to the project, each once.

    A path is kept, existing or not. Of a pattern's matches only files in compiled languages count, sorted.

    Args:
        problems: a problem for every pattern without a match is added here.
    """
    found: dict[str, None] = {}
    known: set[Path] = set()
    there: list[str] = []
    for pattern in patterns:
        if not is_pattern(pattern):
            found[PurePath(pattern).as_posix()] = None
            continue
        if PurePath(pattern).is_absolute():
            problems.append(
                Problem.of("absolute-pattern", origin=origin, pattern=pattern, key=key, project=project)
            )
            continue
        # Python before 3.13 refuses a ** that is not a whole component.
        parts = PurePath(os.path.normpath(pattern)).parts
        plain = (part if part == "**" else _STARS.sub("*", part) for part in parts)
        matched = set(project.glob(str(PurePath(*plain))))
        new = {path for path in matched - known if language_of(path.name) and is_file(path)}
        if not new and known.isdisjoint(matched):
            there = there or list(islice(_source_files(project), _LOOKED_AT))
            problems.append(
                Problem.of(
                    "no-source-matches",
                    origin=origin,
                    pattern=pattern,
                    key=key,
                    project=project,
                    languages=", ".join(LANGUAGES),
                    near=_describe_nearest(there, pattern),
                )
            )
        known |= new
        found.update(dict.fromkeys(sorted(Path(os.path.relpath(path, project)).as_posix() for path in new)))
    return list(found)


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
    """Report patterns of sources with separate architectures that match no CUDA source.

    Args:
        sources: all sources of the extension, including those that are not compiled here.
    """
    cuda = [source for source in sources if language_of(source) is Language.CUDA]
    for pattern in patterns:
        if not any(matches_pattern(source, pattern) for source in cuda):
            yield Problem.of(
                "no-source-matches/architectures",
                origin=origin,
                key=key,
                pattern=pattern,
                near=_describe_nearest(cuda, pattern),
            )


def source_problems(
    extension: Extension, project: Path, missing: Collection[str], *, windows: bool = False
) -> Iterator[Problem]:
    """Report problems with an extension's list of sources.

    Args:
        missing: the missing files.
        windows: whether backslashes separate folders.
    """
    if not extension.sources:
        yield Problem.of("no-sources", origin=extension.origin, extension=extension.name)
    for file in (*extension.sources, *extension.depends):
        if find_unquotable(_spell_source(file.replace("\\", "/") if windows else file, project)):
            yield Problem.of(
                "unquotable-source", origin=extension.origin, file=file, extension=extension.name
            )
        elif file not in extension.sources:
            continue
        elif language_of(file) is None:
            yield Problem.of(
                "unknown-source-language",
                origin=extension.origin,
                source=file,
                extension=extension.name,
                suffix=PurePath(file).suffix or "it",
                languages=", ".join(LANGUAGES),
            )
        elif file in missing:
            yield missing_source(file, extension.name, extension.origin, project)


def missing_source(source: str, extension: str, origin: str, project: Path) -> Problem:
    """The problem of a source that is not there."""
    wanted = PurePath(source)
    try:
        there = [path.name for path in (project / wanted.parent).iterdir()]
    except (OSError, ValueError):  # there is none, or the name is invalid
        there = []
    meant = find_nearest(wanted.name, there)
    advice = "check the path, which is relative to the project's folder, and that an sdist holds the file"
    return Problem.of(
        "source-missing/extension",
        origin=origin,
        source=source,
        extension=extension,
        path=project / source,
        advice=f"did you mean {(wanted.parent / meant).as_posix()}?" if meant else advice,
    )


def _spell_source(source: str, project: Path) -> str:
    """Spell a source like in commands: outside of the project, without a link, by its absolute path."""
    if ".." not in PurePath(source).parts:
        return source
    inside = os.path.relpath(project / source, project)
    outside = PurePath(inside).parts[0] == ".."
    return PurePath(os.path.normpath(project / source) if outside else inside).as_posix()


def _source_files(project: Path) -> Iterator[str]:
    for folder, names, files in os.walk(project):
        # In place, because os.walk() goes on with what is left in this list.
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _SKIPPED)
        for file in sorted(files):
            if language_of(file) is not None:
                yield Path(folder, file).relative_to(project).as_posix()


def _describe_nearest(sources: Sequence[str], pattern: str) -> str:
    """Describe the files nearest to a pattern."""
    short = {source[-_LONGEST_COMPARED:]: source for source in sources[:_COMPARED]}
    close = get_close_matches(pattern[-_LONGEST_COMPARED:], short, _NAMED, 0)
    near = sorted(short[one] for one in close)
    more = len(sources) - len(near)
    return f"there are {', '.join(near) or 'none'}" + (f" and {more} more" if more else "")
