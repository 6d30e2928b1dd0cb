"""Ninja: where it is, what a build folder's graph holds, and what its log says of the steps that ended.

Sources: https://ninja-build.org/manual.html (Extra tools, The Ninja log) and src/build_log.cc in ninja's repository.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.host.programs import NoAnswer, ask_program

STATUS = "[%f/%t] "
"""``NINJA_STATUS`` as torchwheel reads it; it is ninja's own default."""

LOG = ".ninja_log"
"""Of each file that ninja made, when it began and ended, in the folder that ninja builds in."""

_RERUN = b": RERUN_CMAKE "
_WORD = re.compile(rb"(?:\$.|[^ $])+", re.DOTALL)
_STATUS = re.compile(rb"\[\s*(\d{1,9})/(\d{1,9})\] ")
_SECONDS = 60
_MOST_LOG_BYTES = 1 << 28


class NotReadable(Exception):
    """Ninja does not understand the build folder, or there is no ninja."""


def find_ninja(environment: Mapping[str, str]) -> str | None:
    """The ninja to run: PyPI's package in this environment, else the first on PATH; None if there is none."""
    beside = shutil.which("ninja", path=str(Path(sys.executable).parent))
    return beside or shutil.which("ninja", path=environment.get("PATH"))


def ask_ninja(ninja: str, folder: Path, *tool: str) -> str:
    """What a tool of ninja's (``-t``) says of a build folder, which it does not change.

    Raises:
        NotReadable: it failed.
    """
    command = [ninja, "-C", str(folder), "-t", *tool]
    try:
        answer = ask_program(command, seconds=_SECONDS, undecodable="surrogateescape")
    except NoAnswer as failure:
        raise NotReadable(str(failure)) from failure
    if answer.returncode != 0:
        raise NotReadable(answer.stderr.strip() or f"{ninja} ended with status {answer.returncode}")
    return answer.stdout


def commands(ninja: str, folder: Path) -> list[dict[str, Any]]:
    """The steps of a build folder: ``output``, ``file`` (its first input) and ``command`` of each.

    Raises:
        NotReadable: ninja does not understand the folder.
    """
    try:
        entries = json.loads(ask_ninja(ninja, folder, "compdb"))
    except ValueError as error:
        raise NotReadable(str(error)) from error
    return [entry for entry in entries if entry["command"]]


def reads_again(folder: Path) -> list[str]:
    """The files for which CMake runs again when they change, as its ``build.ninja`` has them; none without it."""
    try:
        text = (folder / "build.ninja").read_bytes()
    except OSError:
        return []
    start = text.find(_RERUN)
    inputs = text[start : text.find(b"\n", start)].partition(b" | ")[2] if start >= 0 else b""
    return [os.fsdecode(re.sub(rb"\$(.)", rb"\1", word)) for word in _WORD.findall(inputs) if word != b"|"]


def counts(line: bytes) -> tuple[int, int] | None:
    """The steps that ended and all that are to be made, by a line of ninja's output; None for any other line."""
    match = _STATUS.match(line)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class Ended:
    """A step that ended, by ninja's log.

    Attributes:
        outputs: what it made.
        start: milliseconds since ninja began, as is ``end``.
        time: of a finished file, or of the step's start, as ninja's release has it; nanoseconds since 1970.
    """

    outputs: tuple[str, ...]
    start: int
    end: int
    time: int


class NinjaLog:
    """Follows ninja's log, which grows by a line for each output, and is at times written anew."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOG
        self._identity = (0, 0)
        self._offset = 0
        self._known: dict[str, tuple[str, ...]] = {}

    def new(self) -> list[Ended]:
        """What was added or changed since the last call.

        Raises:
            OSError: the log cannot be read; a log that is not there is empty.
        """
        try:
            with self._file.open("rb") as stream:
                status = os.fstat(stream.fileno())
                identity = (status.st_dev, status.st_ino)
                if identity != self._identity or status.st_size < self._offset:
                    self._identity, self._offset = identity, 0
                stream.seek(self._offset)
                text = stream.read(_MOST_LOG_BYTES)
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        steps: dict[tuple[str, ...], list[str]] = {}
        for line in whole.decode("utf-8", "surrogateescape").split("\n"):
            start, end, time, output, command = fields if len(fields := line.split("\t")) == 5 else ("",) * 5
            key = (start, end, time, command)
            if start.isdecimal() and end.isdecimal() and time.isdecimal() and self._known.get(output) != key:
                self._known[output] = key
                steps.setdefault((start, end, time, command), []).append(output)
        return [Ended(tuple(names), int(key[0]), int(key[1]), int(key[2])) for key, names in steps.items()]
