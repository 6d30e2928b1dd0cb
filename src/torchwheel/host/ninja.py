"""Find ninja, and read a build folder's graph, dependencies and log.

Sources: https://ninja-build.org/manual.html, and src/build_log.cc and src/deps_log.h in ninja's repository.
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
from typing import Any, NamedTuple

from torchwheel.host.programs import NoAnswer, ask_program, find_program
from torchwheel.system.files import atomic_write

STATUS = "[%f/%t] "
"""The ``NINJA_STATUS`` that torchwheel parses; it is ninja's own default."""

DEPENDENCIES = ".ninja_deps"
"""Ninja's log of the headers of each object, in four-byte words."""
LOG = ".ninja_log"

_RERUN = "RERUN_CMAKE"
_STATEMENT = re.compile(rb"^build ((?:\$.|[^:$\n])+): ([\w.-]+)([^\n]*?)\r?$((?:\n +[^\n]*)*)", re.MULTILINE)
_RULE = re.compile(rb"^rule ([\w.-]+)\r?$((?:\n +[^\n]*)*)", re.MULTILINE)
_INCLUDE = re.compile(rb"^include ([^\n]+?)\r?$", re.MULTILINE)
_BINDING = re.compile(rb"^ +(\w+) = ([^\n]*?)\r?$", re.MULTILINE)
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+)|(.))")
# Bindings that differ between steps of one target, and name only folders and files that ninja knows.
_WITHOUT_FILES = frozenset(
    {"DEFINES", "DEP_FILE", "INCLUDES", "OBJECT_DIR", "OBJECT_FILE_DIR", "TARGET_FILE", "in", "out"}
)
_WORD = re.compile(rb"(?:\$.|[^ $])+")
_ESCAPED = re.compile(rb"\$(.)")
_LOG_HEAD = b"# ninjadeps\n" + struct.pack("=i", 4)
# Marks a record of an output in the log of dependencies; the other records are paths.
_OF_OUTPUT = 1 << 31
_STATUS = re.compile(rb"\[\s*(\d{1,9})/(\d{1,9})\] ")
_SECONDS = 60
_MOST_LOG_BYTES = 1 << 28


class NotReadable(Exception):
    """Ninja cannot read the build folder, or there is no ninja."""


def find_ninja(environment: Mapping[str, str]) -> str | None:
    """Find the ninja to run: PyPI's package in this environment, else the first on PATH."""
    beside = find_program("ninja", str(Path(sys.executable).parent))
    return beside or find_program("ninja", environment.get("PATH"))


def read_commands(ninja: str, folder: Path) -> list[dict[str, Any]]:
    """Read ``output``, ``file`` (its first input) and ``command`` of a build folder's steps, or raise NotReadable."""
    command = [ninja, "-C", str(folder), "-t", "compdb"]
    try:
        answer = ask_program(
            command, seconds=_SECONDS, undecodable="surrogateescape", most_bytes=_MOST_LOG_BYTES
        )
        if answer.returncode != 0:
            raise NotReadable(answer.stderr.strip() or f"{ninja} ended with status {answer.returncode}")
        entries = json.loads(answer.stdout)
    except (NoAnswer, ValueError, RecursionError) as error:
        raise NotReadable(str(error)) from error
    # Phony steps have no command.
    return [entry for entry in entries if entry["command"]]


def configure_inputs(folder: Path) -> list[str]:
    """The files whose change makes CMake run again, from ``build.ninja``; none without it."""
    return [path for step in read_steps(folder) if step.rule == _RERUN for path in step.inputs]


def graph_stamps(folder: Path) -> list[tuple[int, int, int]]:
    """Size, time and inode of the files of :func:`read_dependencies`, to detect changes."""
    marks = []
    for name in ("build.ninja", DEPENDENCIES):
        with suppress(OSError):
            status = (folder / name).stat()
            marks.append((status.st_size, status.st_mtime_ns, status.st_ino))
    return marks


def read_dependencies(folder: Path) -> tuple[list[str], list[tuple[str, Collection[int]]]]:
    """Read the paths in ``build.ninja`` and ninja's log of dependencies, and the inputs of each output.

    The inputs are indices among the paths, without order-only ones.
    """
    paths: list[str] = []
    made: list[tuple[str, Collection[int]]] = [
        (paths[output], inputs) for output, inputs in _logged_dependencies(folder / DEPENDENCIES, paths)
    ]
    places = {path: number for number, path in enumerate(paths)}
    for step in read_steps(folder):
        if step.is_run:
            for path in step.inputs:
                if path not in places:
                    places[path] = len(paths)
                    paths.append(path)
            made += [(output, [places[path] for path in step.inputs]) for output in step.outputs]
    return paths, made


def outputs_without_headers(folder: Path) -> list[str]:
    """Find the outputs without recorded headers although their rule has a depfile."""
    paths: list[str] = []
    logged = _logged_dependencies(folder / DEPENDENCIES, paths)
    return [paths[output] for output, inputs in logged if not inputs]


def _logged_dependencies(file: Path, paths: list[str]) -> list[tuple[int, Collection[int]]]:
    """Read the inputs of each output as indices into ``paths``, to which the log's paths are added."""
    log = _read_bytes(file)
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
            if numbers := array("i", log[at : end - (end - at) % 4]):
                of_output[numbers[0]] = numbers[3:]
        else:
            # A path is padded to whole words, and followed by a checksum.
            paths.append(os.fsdecode(log[at : end - 4].rstrip(b"\0")))
        at = end
    return [(output, inputs) for output, inputs in of_output.items() if 0 <= output < len(paths)]


class NinjaStep(NamedTuple):
    """A statement of ``build.ninja``.

    Attributes:
        inputs: without order-only ones, because a newer one does not make an output out of date.
        command: its words, without the names of inputs, outputs and folders of headers.
    """

    outputs: list[str]
    rule: str
    inputs: list[str]
    command: str

    @property
    def is_run(self) -> bool:
        """Whether it is a step of the build: neither an alias nor a run of CMake's own, such as ``install``."""
        return self.rule not in (_RERUN, "phony") and not self.outputs[0].endswith(".util")

    @property
    def is_generator(self) -> bool:
        """Whether it runs a command of the project's own, which may read any variable."""
        return self.rule == "CUSTOM_COMMAND"


def read_steps(folder: Path) -> Iterator[NinjaStep]:
    text = _read_bytes(folder / "build.ninja")
    # CMake includes its rules.
    included = [_read_bytes(folder / os.fsdecode(name)) for name in _INCLUDE.findall(text)]
    rules = {
        name.decode(): _read_bindings(bindings).get("command", "")
        for one in (text, *included)
        for name, bindings in _RULE.findall(one)
    }
    for outputs, name, inputs, bindings in _STATEMENT.findall(text):
        rule, values = name.decode(), _read_bindings(bindings)
        command = _expand(rules.get(rule, ""), values)
        yield NinjaStep(_split_paths(outputs), rule, _split_paths(inputs.partition(b" || ")[0]), command)


def _read_bytes(file: Path) -> bytes:
    with suppress(OSError):
        return file.read_bytes()
    return b""


def _read_bindings(text: bytes) -> dict[str, str]:
    return {name.decode(): os.fsdecode(value) for name, value in _BINDING.findall(text)}


def _expand(text: str, values: Mapping[str, str]) -> str:
    """Replace references by a step's values, once, and ninja's escapes by their characters."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return _expand(values.get(name, ""), {}) if name and name not in _WITHOUT_FILES else match[3] or ""

    return _REFERENCE.sub(value, text)


def _split_paths(text: bytes) -> list[str]:
    return [os.fsdecode(_ESCAPED.sub(rb"\1", word)) for word in _WORD.findall(text) if word != b"|"]


def forget_steps(folder: Path, outputs: Collection[str]) -> None:
    """Make ninja run the steps of outputs again, by removing them from its log."""
    lines = _read_bytes(folder / LOG).splitlines(keepends=True)
    fields = [line.split(b"\t") for line in lines]
    kept = [one for one in fields if len(one) != 5 or os.fsdecode(one[3]) not in outputs]
    # The outputs stay, so that a step that finds nothing to change does not make its dependents run (restat).
    if kept != fields:
        atomic_write(folder / LOG, b"".join(map(b"\t".join, kept)))


def step_times(folder: Path) -> dict[str, int]:
    """The duration of the step of each output, in nanoseconds; empty without a log."""
    with suppress(OSError):
        ended = NinjaLog(folder).read_new_steps()
        return {output: (one.end - one.start) * 10**6 for one in ended for output in one.outputs}
    return {}


def parse_progress(line: bytes) -> tuple[int, int] | None:
    match = _STATUS.match(line)
    return (int(match[1]), int(match[2])) if match else None


@dataclass(frozen=True)
class Ended:
    """A finished step in ninja's log, with milliseconds since ninja's start."""

    outputs: tuple[str, ...]
    start: int
    end: int


class NinjaLog:
    """Follows ninja's log, which is sometimes rewritten."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / LOG
        self._identity = (0, 0)
        self._offset = 0
        self._known: dict[str, tuple[str, ...]] = {}

    def read_new_steps(self) -> list[Ended]:
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
        return [Ended(tuple(names), int(key[0]), int(key[1])) for key, names in steps.items()]
