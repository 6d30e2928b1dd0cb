"""What ``torchwheel_add_extension`` is called with in CMake, read as an extension's table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.pyproject_extensions import ExtensionTable, read_table
from torchwheel.settings.model import Key, extension_keys
from torchwheel.settings.value_types import Flag
from torchwheel.spelling import nearest

FUNCTION = "torchwheel_add_extension"
NO_INSTALL = "NO_INSTALL"

_PATHS = ("sources", "cuda-sources", "include-dirs", "library-dirs", "depends")


@dataclass(frozen=True)
class CMakeExtension:
    """One call of the function.

    Attributes:
        table: what it says of the extension; paths are relative to the project, or absolute.
        install: whether the module becomes part of the package.
    """

    table: ExtensionTable
    install: bool


def keyword_of(key: str) -> str:
    """The function's keyword for a key of an extension's table: ``CUDA_SOURCES``."""
    return key.replace("-", "_").upper()


def read_arguments(arguments: Sequence[str], folder: Path, project: Path) -> CMakeExtension:
    """Read a call's arguments.

    Args:
        folder: the source folder of the CMakeLists.txt, which its paths are relative to.

    Raises:
        TorchwheelError: they are wrong; everything that is wrong is in it.
    """
    keys = {keyword_of(name): key for name, key in extension_keys().items()}
    file = Path(os.path.relpath(folder / "CMakeLists.txt", project)).as_posix()
    problems: list[Problem] = []
    groups = _groups(arguments, [*keys, NO_INSTALL], file, problems)
    named = " ".join(groups.get("NAME", []))
    origin = f"{file} {FUNCTION}({named})"
    content: dict[str, object] = {}
    for keyword, words in groups.items():
        if keyword != NO_INSTALL:
            key = keys[keyword]
            content[key.name] = _value(key, keyword, words, origin, problems)
    try:
        table = read_table(content, origin)
    except TorchwheelError as error:
        raise TorchwheelError([*problems, *(_in_cmake(problem) for problem in error.problems)]) from None
    if problems:
        raise TorchwheelError(problems)
    moved = {key: _moved(table.values[key], folder, project) for key in _PATHS if key in table.values}
    return CMakeExtension(replace(table, values={**table.values, **moved}), install=NO_INSTALL not in groups)


def _groups(
    arguments: Sequence[str], keywords: Sequence[str], file: str, problems: list[Problem]
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    current = ""
    for word in arguments:
        if word in keywords:
            current = word
            groups.setdefault(word, [])
        elif not current or (current != "DEFINE" and _is_misspelled(word, keywords)):
            problems.append(_unknown(word, keywords, file))
        else:
            groups[current].append(word)
    return groups


def _is_misspelled(word: str, keywords: Sequence[str]) -> bool:
    """Whether a word looks like a keyword, which CMake writes in capitals, but is none."""
    looks = word.isupper() and word.replace("_", "").isalpha() and len(word) > 3
    return looks and nearest(word, keywords) is not None


def _value(key: Key, keyword: str, words: Sequence[str], origin: str, problems: list[Problem]) -> object:
    if isinstance(key.type, Flag) and not words:
        return True
    if key.table:
        return dict(_entries(words, keyword, origin, problems, bare=key.name == "define"))
    if len(words) == 1:
        return words[0]
    return list(words)


def _entries(
    words: Sequence[str], keyword: str, origin: str, problems: list[Problem], *, bare: bool
) -> Iterator[tuple[str, str | bool]]:
    """``NAME=VALUE`` words; with ``bare`` a name alone is true."""
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif bare:
            yield name, True
        else:
            problems.append(
                Problem(
                    id="ill-typed-value",
                    what=f'{keyword} has "{word}", which is not PATTERN=VALUE',
                    remedy=f'write {keyword} "sm90/*.cu=9.0a"',
                    origin=origin,
                )
            )


def _moved(paths: Sequence[str], folder: Path, project: Path) -> tuple[str, ...]:
    """Paths relative to the project where they are in it; where not, absolute."""

    def moved(path: str) -> str:
        whole = Path(os.path.normpath(folder / path))
        return whole.relative_to(project).as_posix() if whole.is_relative_to(project) else str(whole)

    return tuple(moved(path) for path in paths)


def _unknown(word: str, keywords: Sequence[str], file: str) -> Problem:
    meant = nearest(word, keywords)
    return Problem(
        id="unknown-setting",
        what=f'"{word}" is not a keyword of {FUNCTION}',
        remedy=f"write {meant}" if meant else f"remove it; the keywords are {', '.join(keywords)}",
        origin=file,
    )


def _in_cmake(problem: Problem) -> Problem:
    """A table's problem in the words of CMake, where its remedy shows TOML."""
    remedies: Mapping[str, str] = {
        f"add it, for example {extension_keys()[name].toml_example()}": f"add {keyword} {example}"
        for name, keyword, example in (
            ("name", "NAME", "package._C"),
            ("sources", "SOURCES", "csrc/kernels.cpp"),
        )
    }
    changed: dict[str, Any] = {"remedy": remedies.get(problem.remedy, problem.remedy)}
    return replace(problem, **changed)
