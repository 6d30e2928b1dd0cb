"""What ``torchwheel_add_extension`` is called with in CMake, read as an extension's options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.options import ExtensionOptions, Spelling, read_options
from torchwheel.settings.model import Key, extension_keys
from torchwheel.settings.value_types import Flag
from torchwheel.spelling import nearest

FUNCTION = "torchwheel_add_extension"
NO_INSTALL = "NO_INSTALL"

_PATHS = ("sources", "cuda-sources", "include-dirs", "library-dirs", "depends")


def keyword_of(key: str) -> str:
    """The function's keyword for an option: ``CUDA_SOURCES``."""
    return key.replace("-", "_").upper()


def _example(key: Key) -> str:
    keyword = keyword_of(key.name)
    if isinstance(key.type, Flag):
        return keyword
    plain = key.example.strip("[]").replace('", "', '" "')
    return f"{keyword} {plain}" if not key.table else f'{keyword} "{plain.replace(chr(34), "")}"'


CMAKE = Spelling(f"a keyword of {FUNCTION}", keyword_of, _example)


def read_arguments(arguments: Sequence[str], folder: Path, project: Path) -> tuple[ExtensionOptions, bool]:
    """Read a call's arguments.

    Args:
        folder: the source folder of the CMakeLists.txt, which its paths are relative to.

    Returns:
        The extension's options, their paths relative to the project or absolute; and whether the module becomes part
        of the package.

    Raises:
        TorchwheelError: they are wrong; everything that is wrong is in it.
    """
    keys = {keyword_of(name): key for name, key in extension_keys().items()}
    file = Path(os.path.relpath(folder / "CMakeLists.txt", project)).as_posix()
    problems: list[Problem] = []
    groups = _groups(arguments, [*keys, NO_INSTALL], file, problems)
    origin = f"{file} {FUNCTION}({' '.join(groups.get('NAME', []))})"
    install = groups.pop(NO_INSTALL, None) is None
    content = {keys[word].name: _value(keys[word], given, origin, problems) for word, given in groups.items()}
    try:
        options = read_options(content, origin, CMAKE)
    except TorchwheelError as error:
        problems += error.problems
    if problems:
        raise TorchwheelError(problems)
    values = options.values
    moved = {key: _moved(values[key], folder, project) for key in _PATHS if key in values}
    return replace(options, values={**values, **moved}), install


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
            problems.append(CMAKE.unknown(word, keywords, file))
        else:
            groups[current].append(word)
    return groups


def _is_misspelled(word: str, keywords: Sequence[str]) -> bool:
    """Whether a word looks like a keyword, which CMake writes in capitals, but is none."""
    looks = word.isupper() and word.replace("_", "").isalpha() and len(word) > 3
    return looks and nearest(word, keywords) is not None


def _value(key: Key, words: Sequence[str], origin: str, problems: list[Problem]) -> object:
    if isinstance(key.type, Flag) and not words:
        return True
    if key.table:
        return dict(_entries(key, words, origin, problems))
    return words[0] if len(words) == 1 else list(words)


def _entries(
    key: Key, words: Sequence[str], origin: str, problems: list[Problem]
) -> Iterator[tuple[str, str | bool]]:
    """``NAME=VALUE`` words; of ``define`` a name alone is true."""
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif key.name == "define":
            yield name, True
        else:
            problems.append(
                Problem(
                    id="ill-typed-value",
                    what=f'{keyword_of(key.name)} has "{word}", which is not PATTERN=VALUE',
                    remedy=f"write {_example(key)}",
                    origin=origin,
                )
            )


def _moved(paths: Sequence[str], folder: Path, project: Path) -> tuple[str, ...]:
    """Paths relative to the project where they are in it; where not, absolute."""
    whole = [Path(os.path.normpath(folder / path)) for path in paths]
    return tuple(p.relative_to(project).as_posix() if p.is_relative_to(project) else str(p) for p in whole)
