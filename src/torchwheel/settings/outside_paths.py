"""Relative paths in the values of options and environment variables.

A build runs in other folders, where a relative path means nothing: it is resolved once, against the folder where it was
written.
"""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath

from torchwheel.host.compilers import command_words, leading_launchers
from torchwheel.system.paths import exists, is_file
from torchwheel.system.toml import read_toml


def absolute_path(text: str, folder: Path | None) -> str:
    """A path of any platform with ``~`` expanded, put under ``folder`` unless it is absolute."""
    text = os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises without a home
    return text if folder is None or _is_absolute(text) else str((folder / text).absolute())


def resolve_value(table: str, name: str, text: str, folder: Path) -> str:
    """Return the value of an option or a variable with its relative paths put under ``folder``.

    A program without a folder is one of ``PATH``; another relative path that does not exist may be the tree's.

    Args:
        table: ``define`` for an option of CMake, ``env`` for a variable.
    """
    kind = next((kind for pattern, kind in _kinds() if fnmatchcase(name, pattern)), "")
    if kind == "program":
        return _absolute_program(text, folder) if table == "define" else _absolute_command(text, folder)
    if kind == "paths":
        separator = ";" if table == "define" else os.pathsep
        return separator.join(_existing_path(part, folder) for part in text.split(separator))
    return _existing_path(text, folder) if kind else text


@cache
def _kinds() -> tuple[tuple[str, str], ...]:
    rows = read_toml(Path(__file__).with_suffix(".toml"))["values"]
    return tuple((name, row["kind"]) for row in rows for name in row["names"])


def _is_absolute(text: str) -> bool:
    return PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()


def _existing_path(text: str, folder: Path) -> str:
    return absolute_path(text, folder) if text and exists(absolute_path(text, folder)) else text


def _absolute_program(word: str, folder: Path) -> str:
    return absolute_path(word, folder) if "/" in word or os.sep in word else word


def _absolute_command(text: str, folder: Path) -> str:
    """Resolve the program of a command and the launchers before it; the whole text may be one program's path."""
    whole = _absolute_program(text, folder)
    if is_file(whole):
        return whole
    words = command_words(text, platform.system())
    count = len(leading_launchers(words)) + 1
    resolved = [*(_absolute_program(word, folder) for word in words[:count]), *words[count:]]
    if resolved == words:
        return text
    return subprocess.list2cmdline(resolved) if os.name == "nt" else shlex.join(resolved)
