"""Which compilers and build tools this process starts."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_TOOL = re.compile(
    r"(?:[\w.]+-)*(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+|cl|nvcc|cmake|ninja|make)(?:-[\d.]+)?(?:\.exe)?", re.I
)
_QUESTIONS = {"--version", "-dumpversion", "-dumpfullversion", "--list-gpu-code", "--list-gpu-arch"}
"""What a compiler is asked without compiling anything."""


def find_work(
    program: str | os.PathLike[str], arguments: Sequence[str | os.PathLike[str]], path: str | None = None
) -> str:
    """The command where it makes a compiler or a build tool do something, else nothing.

    Args:
        program: what is started, a path or a name.
        arguments: with the program's name as the first.
        path: where names are looked for; None for this process's PATH.

    Returns:
        The command line; empty for other programs, for questions like ``--version``, and for a stand-in: what a test
        wrote into a temporary folder.
    """
    found = shutil.which(program, path=path)
    if found is None or not _TOOL.fullmatch(Path(found).name):
        return ""
    if Path(tempfile.gettempdir()).resolve() in Path(found).resolve().parents:
        return ""
    words = [os.fspath(word) for word in arguments[1:]]
    return "" if words and set(words) <= _QUESTIONS else " ".join([os.fspath(found), *words])


class Watch:
    """Notes each command that this process starts and that ``find_work`` names."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        sys.addaudithook(self._hear)

    def take(self) -> list[str]:
        """The commands since the last call."""
        taken, self.commands = self.commands, []
        return taken

    def _hear(self, event: str, values: tuple[Any, ...]) -> None:
        if event != "subprocess.Popen":
            return
        program, arguments, _folder, environment = values
        path = None if environment is None else dict(environment).get("PATH", "")
        if isinstance(arguments, (str, bytes, os.PathLike)):
            arguments = [arguments]
        command = find_work(
            os.fsdecode(program or arguments[0]), [os.fsdecode(word) for word in arguments], path
        )
        if command:
            self.commands.append(command)
