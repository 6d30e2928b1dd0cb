"""Find ninja, and read a build folder's graph, dependencies and log.

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
"""The ``NINJA_STATUS`` that torchwheel parses; it is ninja's own default."""

DEPENDENCIES = ".ninja_deps"
"""Ninja's log of the headers of each object, in four-byte words."""

LOG = ".ninja_log"
"""Ninja's log of the start and end of each output, in the build folder."""

_RERUN = "RERUN_CMAKE"
_STATEMENT = re.compile(rb"^build ((?:\$.|[^:$\n])+): (\w+)(.*?)\r?$", re.MULTILINE)
_WORD = re.compile(rb"(?:\$.|[^ $])+")
_ESCAPED = re.compile(rb"\$(.)")
_LOG_HEAD = b"# ninjadeps\n" + struct.pack("=i", 4)
_OF_OUTPUT = 1 << 31
"""Marks a record of an output in the log of dependencies; the other records are paths."""

_STATUS = re.compile(rb"\[\s*(\d{1,9})/(\d{1,9})\] ")
_SECONDS = 60
_MOST_LOG_BYTES = 1 << 28


class NotReadable(Exception):
    """Ninja cannot read the build folder, or there is no ninja."""


def find_ninja(environment: Mapping[str, str]) -> str | None:
    """Find the ninja to run: PyPI's package in this environment, else the first on PATH; None if there is none."""
    beside = find_program("ninja", str(Path(sys.executable).parent))
    return beside or find_program("ninja", environment.get("PATH"))


def ask_ninja(ninja: str, folder: Path, *tool: str) -> str:
    """Return the output of one of ninja's read-only tools (``-t``) for a build folder.

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


def read_commands(ninja: str, folder: Path) -> list[dict[str, Any]]:
    """Read the steps of a build folder: ``output``, ``file`` (its first input) and ``command`` of each.

    Raises:
        NotReadable: ninja cannot read the folder.
    """
    try:
        entries = json.loads(ask_ninja(ninja, folder, "compdb"))
    except (ValueError, RecursionError) as error:
        raise NotReadable(str(error)) from error
    # Phony steps have no command.
    return [entry for entry in entries if entry["command"]]


def configure_inputs(folder: Path) -> list[str]:
    """The files whose change makes CMake run again, from ``build.ninja``; none without it."""
    return [path for _, rule, inputs in _read_statements(folder) if rule == _RERUN for path in inputs]


def graph_stamps(folder: Path) -> list[tuple[int, int, int]]:
    """Size, time and inode of the files of :func:`read_dependencies`, to detect changes."""
    marks = []
    for name in ("build.ninja", DEPENDENCIES):
        with suppress(OSError):
            status = (folder / name).stat()
            marks.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return marks


def read_dependencies(folder: Path) -> tuple[list[str], list[tuple[str, Collection[int]]]]:
    """Read the inputs of a build folder's steps from ``build.ninja``, and headers from ninja's log of dependencies.

    Order-only inputs are left out.

    Returns:
        The paths as written; and outputs, each with the indices of its inputs among the paths.
    """
    paths: list[str] = []
    made: list[tuple[str, Collection[int]]] = [
        (paths[output], inputs) for output, inputs in _logged_dependencies(folder / DEPENDENCIES, paths)
    ]
    places = {path: number for number, path in enumerate(paths)}
    for outputs, rule, inputs in _read_statements(folder):
        if rule not in (_RERUN, "phony"):
            for path in inputs:
                if path not in places:
                    places[path] = len(paths)
                    paths.append(path)
            made += [(output, [places[path] for path in inputs]) for output in outputs]
    return paths, made


def outputs_without_headers(folder: Path) -> list[str]:
    """Find the outputs without recorded headers although their rule has a depfile."""
    paths: list[str] = []
    logged = _logged_dependencies(folder / DEPENDENCIES, paths)
    return [paths[output] for output, inputs in logged if not inputs]


def _logged_dependencies(file: Path, paths: list[str]) -> list[tuple[int, Collection[int]]]:
    """Read the inputs of each output as indices into ``paths``, to which the log's paths are added."""
    try:
        log = file.read_bytes()
    except OSError:
        return []
    of_output: dict[int, Collection[int]] = {}
    at = len(_LOG_HEAD) if log.startswith(_LOG_HEAD) else len(log)
    while at + 4 <= len(log):
        (size,) = struct.unpack_from("=I", log, at)
        at, end = at + 4, at + 4 + (size & ~_OF_OUTPUT)
        # A kill may leave half a record at the end.
        if end > len(log):
            break
        if size & _OF_OUTPUT:
            # The output, when it was made in eight bytes, and its inputs.
            numbers = array("i", log[at : end - (end - at) % 4])
            if numbers:
                of_output[numbers[0]] = numbers[3:]
        else:
            # A path is padded to whole words, and followed by a checksum.
            paths.append(os.fsdecode(log[at : end - 4].rstrip(b"\0")))
        at = end
    return [(output, inputs) for output, inputs in of_output.items() if 0 <= output < len(paths)]


def _read_statements(folder: Path) -> Iterator[tuple[list[str], str, list[str]]]:
    """Yield outputs, rule and inputs of each statement of ``build.ninja``; nothing without it."""
    try:
        text = (folder / "build.ninja").read_bytes()
    except OSError:
        return
    for outputs, rule, inputs in _STATEMENT.findall(text):
        # A newer order-only input does not make an output out of date.
        yield _split_paths(outputs), rule.decode(), _split_paths(inputs.partition(b" || ")[0])


def _split_paths(text: bytes) -> list[str]:
    return [os.fsdecode(_ESCAPED.sub(rb"\1", word)) for word in _WORD.findall(text) if word != b"|"]


def step_times(folder: Path) -> dict[str, int]:
    """The duration of the step of each output, in nanoseconds; empty without a log."""
    try:
        ended = NinjaLog(folder).read_new_steps()
    except OSError:
        return {}
    return {output: (one.end - one.start) * 10**6 for one in ended for output in one.outputs}


def parse_progress(line: bytes) -> tuple[int, int] | None:
    """Parse finished and total steps from a line of ninja's output; None for any other line."""
    match = _STATUS.match(line)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class Ended:
    """A finished step in ninja's log.

    Attributes:
        outputs: its outputs.
        start: milliseconds since ninja started, like ``end``.
        time: of the output or of the step's start, depending on ninja's release; nanoseconds since 1970.
    """

    outputs: tuple[str, ...]
    start: int
    end: int
    time: int


class NinjaLog:
    """Follows ninja's log, which grows by a line for each output and is sometimes rewritten."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOG
        self._identity = (0, 0)
        self._offset = 0
        self._known: dict[str, tuple[str, ...]] = {}

    def read_new_steps(self) -> list[Ended]:
        """Return the steps added or changed since the last call.

        Raises:
            OSError: the log cannot be read; a missing log is empty.
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
        # Ninja may still be writing the last line.
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
