"""Ninja: where it is, what a build folder's graph holds, and what its log says of the steps that ended.

Sources: https://ninja-build.org/manual.html (Build statements, Extra tools, The Ninja log), and src/build_log.cc and
src/deps_log.h in ninja's repository.
"""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from array import array
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.host.programs import NoAnswer, ask_program, find_program

STATUS = "[%f/%t] "
"""``NINJA_STATUS`` as torchwheel reads it; it is ninja's own default."""

DEPENDENCIES = ".ninja_deps"
"""Of each object, the headers that its compiler read, in the same folder, in four-byte words."""

LOG = ".ninja_log"
"""Of each file that ninja made, when it began and ended, in the folder that ninja builds in."""

_RERUN = "RERUN_CMAKE"
_STATEMENT = re.compile(rb"^build ((?:\$.|[^:$\n])+): (\w+)(.*?)\r?$", re.MULTILINE)
_WORD = re.compile(rb"(?:\$.|[^ $])+")
_ESCAPED = re.compile(rb"\$(.)")
_LOG_HEAD = b"# ninjadeps\n" + struct.pack("=i", 4)
_OF_OUTPUT = 1 << 31
"""Marks in the log of dependencies what tells of an output; the rest are paths."""

_STATUS = re.compile(rb"\[\s*(\d{1,9})/(\d{1,9})\] ")
_SECONDS = 60
_MOST_LOG_BYTES = 1 << 28


class NotReadable(Exception):
    """Ninja does not understand the build folder, or there is no ninja."""


def find_ninja(environment: Mapping[str, str]) -> str | None:
    """The ninja to run: PyPI's package in this environment, else the first on PATH; None if there is none."""
    beside = find_program("ninja", str(Path(sys.executable).parent))
    return beside or find_program("ninja", environment.get("PATH"))


def ask_ninja(ninja: str, folder: Path, *tool: str) -> str:
    """What a tool of ninja's (``-t``) says of a build folder, which it does not change.

    Raises:
        NotReadable: it failed.
    """
    command = [ninja, "-C", str(folder), "-t", *tool]
    try:
        answer = ask_program(
            command, seconds=_SECONDS, undecodable="surrogateescape", most_bytes=_MOST_LOG_BYTES
        )
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
    except (ValueError, RecursionError) as error:
        raise NotReadable(str(error)) from error
    return [entry for entry in entries if entry["command"]]


def reads_again(folder: Path) -> list[str]:
    """The files for which CMake runs again when they change, as its ``build.ninja`` has them; none without it."""
    return [path for _, rule, inputs in _statements(folder) if rule == _RERUN for path in inputs]


def graph_marks(folder: Path) -> list[tuple[int, int, int]]:
    """What tells whether what :func:`made_of` reads is as it was: size, time and inode of these files."""
    marks = []
    for name in ("build.ninja", DEPENDENCIES):
        with suppress(OSError):
            status = (folder / name).stat()
            marks.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return marks


def made_of(folder: Path) -> tuple[list[str], list[tuple[str, Collection[int]]]]:
    """What the steps of a build folder read: by ``build.ninja``, and headers by ninja's log of dependencies.

    What only has to be there before a step does not count.

    Returns:
        Paths, as these files have them; and outputs, each with the places of its inputs among the paths.
    """
    paths: list[str] = []
    made: list[tuple[str, Collection[int]]] = [
        (paths[output], inputs) for output, inputs in _logged_dependencies(folder / DEPENDENCIES, paths)
    ]
    places = {path: number for number, path in enumerate(paths)}
    for outputs, rule, inputs in _statements(folder):
        if rule not in (_RERUN, "phony"):
            for path in inputs:
                if path not in places:
                    places[path] = len(paths)
                    paths.append(path)
            made += [(output, [places[path] for path in inputs]) for output in outputs]
    return paths, made


def without_headers(folder: Path) -> list[str]:
    """The outputs of whose compiler ninja learned no header, though their rule asks for them."""
    paths: list[str] = []
    logged = _logged_dependencies(folder / DEPENDENCIES, paths)
    return [paths[output] for output, inputs in logged if not inputs]


def _logged_dependencies(file: Path, paths: list[str]) -> list[tuple[int, Collection[int]]]:
    """The inputs of each output, by their places in ``paths``, which get what the log names."""
    try:
        log = file.read_bytes()
    except OSError:
        return []
    of_output: dict[int, Collection[int]] = {}
    at = len(_LOG_HEAD) if log.startswith(_LOG_HEAD) else len(log)
    while at + 4 <= len(log):
        (size,) = struct.unpack_from("=I", log, at)
        at, end = at + 4, at + 4 + (size & ~_OF_OUTPUT)
        if end > len(log):
            break
        if size & _OF_OUTPUT:
            # The output, when it was made in eight bytes, and its inputs.
            numbers = array("i", log[at : end - (end - at) % 4])
            if numbers:
                of_output[numbers[0]] = numbers[3:]
        else:
            paths.append(os.fsdecode(log[at : end - 4].rstrip(b"\0")))
        at = end
    return [(output, inputs) for output, inputs in of_output.items() if 0 <= output < len(paths)]


def _statements(folder: Path) -> Iterator[tuple[list[str], str, list[str]]]:
    """The outputs, the rule and the inputs of each statement of ``build.ninja``; nothing without it."""
    try:
        text = (folder / "build.ninja").read_bytes()
    except OSError:
        return
    for outputs, rule, inputs in _STATEMENT.findall(text):
        yield _paths(outputs), rule.decode(), _paths(inputs.partition(b" || ")[0])


def _paths(text: bytes) -> list[str]:
    return [os.fsdecode(_ESCAPED.sub(rb"\1", word)) for word in _WORD.findall(text) if word != b"|"]


def step_times(folder: Path) -> dict[str, int]:
    """How long the steps took that made a build folder's outputs, in nanoseconds; empty without a log."""
    try:
        ended = NinjaLog(folder).new()
    except OSError:
        return {}
    return {output: (one.end - one.start) * 10**6 for one in ended for output in one.outputs}


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
