"""The source files of extensions: their patterns, and problems with both."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from functools import cache
from heapq import nlargest
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath

from torchwheel.extension.extension_plan import LANGUAGES, Extension, Language, language_of
from torchwheel.reporting.errors import Problem, find_nearest
from torchwheel.system.paths import is_file

_REFUSED = {
    ".pyx": "install Cython for a setup.py; elsewhere run cython --cplus, and name the .cpp file that it writes",
    ".hip": "name the CUDA source that it was made from; HIP sources are not compiled",
    ".sycl": "leave it out; SYCL sources are not compiled",
    ".mm": "leave it out; Objective-C++ sources are not compiled",
}
_GLOB = frozenset("*?[")
_UNQUOTABLE = re.compile(r'[\x00-\x1f\x7f";|`\\]|\$(?:\w*\{|[<(])')
# nvcc runs its steps with sh, with double quotes around each word, and fatbinary separates names by commas.
_SHELLS = re.compile("[$`]")
_FATBINARYS = re.compile("[$`,]")
_STARS = re.compile(r"\*+")
_UNWRITABLE = re.compile(r"[\0\r\n]")
_LOOKED_AT = 20_000
_COMPARED = 1_000
_NAMED = 3
_MOST_SHOWN = 20
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
    unmatched = 0
    known: set[Path] = set()
    there: list[str] = []
    for pattern in patterns:
        if not is_pattern(pattern):
            found[PurePath(pattern).as_posix()] = None
        elif PurePath(pattern).is_absolute():
            problems.append(
                Problem.of("absolute-pattern", origin=origin, pattern=pattern, key=key, project=project)
            )
        else:
            # Python before 3.13 refuses a ** that is not a whole component.
            parts = PurePath(os.path.normpath(pattern)).parts
            plain = (part if part == "**" else _STARS.sub("*", part) for part in parts)
            matched = set(project.glob(str(PurePath(*plain))))
            new = {path for path in matched - known if language_of(path.name) and is_file(path)}
            useless = not new and known.isdisjoint(matched)
            known |= new
            unmatched += useless
            if useless and unmatched <= _MOST_SHOWN:
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
            found.update(
                dict.fromkeys(sorted(Path(os.path.relpath(path, project)).as_posix() for path in new))
            )
    problems += _more_unmatched(unmatched, key, origin)
    return list(found)


def _more_unmatched(count: int, key: str, origin: str) -> Iterator[Problem]:
    """Summarise the problems of further patterns, after the first ones with separate problems."""
    if count > _MOST_SHOWN:
        yield Problem.of("no-source-matches/further", origin=origin, count=count - _MOST_SHOWN, key=key)


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
    unmatched = 0
    for pattern in patterns:
        if not any(matches_pattern(source, pattern) for source in cuda):
            unmatched += 1
            if unmatched > _MOST_SHOWN:
                continue
            yield Problem.of(
                "no-source-matches/architectures",
                origin=origin,
                key=key,
                pattern=pattern,
                near=_describe_nearest(cuda, pattern),
            )
    yield from _more_unmatched(unmatched, key, origin)


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
    files = (*extension.sources, *extension.depends)
    spelled = {file: _spell_source(file.replace("\\", "/") if windows else file, project) for file in files}
    nvcc_reads = {} if windows else _read_by_nvcc(extension, spelled)
    refused = {file: None for file in files if find_unquotable(spelled[file])}
    for text, sign in nvcc_reads.items():
        if text not in refused:
            yield Problem.of(
                "unquotable-source/nvcc-file" if text in files else "unquotable-source/nvcc",
                origin=extension.origin,
                text=text,
                extension=extension.name,
                sign=sign,
            )
    for file in refused:
        yield Problem.of("unquotable-source", origin=extension.origin, file=file, extension=extension.name)
    for text in filter(_UNWRITABLE.search, _other_arguments(extension)):
        yield Problem.of(
            "unquotable-source/argument", origin=extension.origin, text=text, extension=extension.name
        )
    lacking = 0
    for file in extension.sources:
        if file in refused:
            continue
        if language_of(file) is None:
            suffix = PurePath(file).suffix
            yield Problem.of(
                "unknown-source-language",
                origin=extension.origin,
                source=file,
                extension=extension.name,
                suffix=suffix or "it",
                languages=", ".join(LANGUAGES),
                advice=_REFUSED.get(suffix, "leave it out of the sources; headers are found by themselves"),
            )
        elif file in missing:
            lacking += 1
            if lacking > _MOST_SHOWN:
                continue
            yield Problem.of(
                "source-missing/extension",
                origin=extension.origin,
                source=file,
                extension=extension.name,
                path=project / file,
                advice=suggest_source(file, project),
            )
    if lacking > _MOST_SHOWN:
        yield Problem.of("source-missing/further", origin=extension.origin, count=lacking - _MOST_SHOWN)


def _other_arguments(extension: Extension) -> Iterator[str]:
    """Yield the other texts of an extension that are part of commands."""
    one = extension
    yield from (*one.include_dirs, *one.library_dirs, *one.libraries)
    yield from (*one.link_flags, *one.device_link_libraries)
    yield from (*one.undef_macros, *(text for macro in one.define_macros for text in macro if text))
    yield from (flag for flags in one.flags.values() for flag in flags)


def _read_by_nvcc(extension: Extension, spelled: Mapping[str, str]) -> dict[str, str]:
    """Find texts that nvcc would pass on to be misread, each with the misread character."""
    one, cuda = extension, extension.cuda_sources
    if not cuda:
        return {}
    linked = (*one.sources, *one.library_dirs) if one.device_link or one.device_link_libraries else ()
    arguments = (
        *(*linked, *one.include_dirs, *one.device_link_libraries, *one.undef_macros),
        *(text for macro in one.define_macros for text in macro if text),
        *one.flags.get(Language.CUDA, ()),
    )
    given = [(name, _FATBINARYS) for name in cuda] + [(text, _SHELLS) for text in arguments]
    found = ((text, pattern.search(spelled.get(text, text))) for text, pattern in given)
    return {text: match[0] for text, match in found if match}


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


def suggest_source(source: str, project: Path) -> str:
    """Return a hint about a source that is not there."""
    wanted = PurePath(source)
    try:
        there = [path.name for path in (project / wanted.parent).iterdir()]
    except (OSError, ValueError):  # there is none, or the name is invalid
        there = []
    if meant := find_nearest(wanted.name, there):
        return f"did you mean {(wanted.parent / meant).as_posix()}?"
    return "check the path, which is relative to the project's folder, and that an sdist holds the file"


def _describe_nearest(sources: Sequence[str], pattern: str) -> str:
    """Describe the files nearest to a pattern."""
    if not sources:
        return "there are none"
    wanted = SequenceMatcher(b=pattern[:_LONGEST_COMPARED])

    def measure_likeness(source: str) -> float:
        wanted.set_seq1(source[:_LONGEST_COMPARED])
        return wanted.ratio()

    near = sorted(nlargest(_NAMED, sources[:_COMPARED], measure_likeness))
    more = len(sources) - len(near)
    return f"there are {', '.join(near)}" + (f" and {more} more" if more else "")
