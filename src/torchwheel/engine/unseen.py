"""Invalidate outputs after changes that ninja does not detect, because it compares only times.

A file may be replaced by one with an older time: apt, conda, tar and rsync preserve times. A source may also be edited
while it is compiled: the object is finished later and looks newer to ninja 1.11.1 (1.13 compares with the start of the
step). Ninja's own files list the inputs of each output, including system headers; the inputs' content at the last build
is recorded beside them.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.engine.embedded_files import embedded_files
from torchwheel.host.ninja import graph_stamps, read_dependencies, step_times
from torchwheel.reporting.terminal import join_items, say
from torchwheel.system.files import atomic_write, file_sha256, inode_time

STATE = "made-from.json"
"""The record, beside the outputs, of the inputs outside the folder and their content."""

# Larger files, such as CUDA's libraries, are compared by size and time.
_MOST_READ = 1 << 24


@dataclass(frozen=True)
class _Input:
    """An input file.

    Attributes:
        time: time of its content, and ``changed`` of its inode if the system has that; nanoseconds since 1970.
        content: a mark of its content.
    """

    size: int
    time: int
    changed: int
    content: str = ""


@contextmanager
def invalidate_unseen_changes(folder: Path, sources: Path, besides: Collection[Path] = ()) -> Iterator[None]:
    """Remove outputs whose inputs changed without looking newer, before ninja runs in the block.

    Args:
        folder: the build folder, used by no other build.
        sources: the folder of the sources, which may embed files.
        besides: folders where every changed file looks newer.

    Raises:
        OSError: an output cannot be removed, or the record cannot be written.
    """
    began, state = time.time_ns(), folder / STATE
    known, graph = _read_state(state), graph_stamps(folder)
    paths, made, embedded = _read_graph(folder, sources)
    files = _files_outside(paths, made, (folder, *besides), embedded)
    marks: dict[str, _Input] = {}
    replaced: dict[int, tuple[int, float]] = {}
    for number, (file, status) in files.items():
        before = known.get(paths[number])
        now = _describe_input(file, status, before)
        # Ninja compares only the times of inputs that it knows.
        looks = 0 if number in embedded else now.time
        if before is None:
            # The inode has the time of the change.
            replaced[number] = looks, max(now.time, now.changed)
        elif before.content != now.content:
            replaced[number] = looks, math.inf
        # By ninja's name, because a link may lead elsewhere now.
        marks[paths[number]] = now
    missing = (number for number in embedded if number not in files and paths[number] in known)
    replaced |= dict.fromkeys(missing, (0, math.inf))
    again = _remove_outdated(folder, made, replaced)
    if again:
        names = sorted(str(files[number][0]) if number in files else paths[number] for number in again)
        say(f"changed since it was compiled, undetected by ninja; compiled again: {join_items(names)}")
    # After the removal, because a kill between the two must not hide the change.
    if marks != known:
        _write_state(state, marks)
    try:
        yield
    finally:
        # Otherwise nothing was built.
        if graph_stamps(folder) != graph:
            paths, made, embedded = _read_graph(folder, sources)
            # Files changed meanwhile may have been read before or after that.
            read = {
                paths[number]: marks.get(paths[number]) or _describe_input(file, status, None)
                for number, (file, status) in _files_outside(
                    paths, made, (folder, *besides), embedded
                ).items()
                if paths[number] in marks or max(status.st_mtime_ns, inode_time(status)) < began
            }
            with suppress(OSError):
                # An error here would hide the build's own, and the record from before the build is still valid.
                if read != marks:
                    _write_state(state, read)


def _read_graph(
    folder: Path, sources: Path
) -> tuple[list[str], list[tuple[str, Collection[int]]], Collection[int]]:
    """Read the graph like :func:`read_dependencies`, with embedded files as inputs; also return the latter."""
    paths, made = read_dependencies(folder)
    outputs = {output for output, _ in made}
    embedding = embedded_files(folder, sources, (path for path in paths if path not in outputs))
    if not embedding:
        return paths, made, ()
    places = {path: number for number, path in enumerate(paths)}
    embedded: dict[int, list[int]] = {}
    for source, files in embedding.items():
        for name in map(str, files):
            if name not in places:
                places[name] = len(paths)
                paths.append(name)
            embedded.setdefault(places[source], []).append(places[name])
    whole: list[tuple[str, Collection[int]]] = [
        (output, {*inputs, *(n for one in inputs for n in embedded.get(one, ()))}) for output, inputs in made
    ]
    return paths, whole, {number for numbers in embedded.values() for number in numbers}


def _remove_outdated(
    folder: Path, made: Collection[tuple[str, Collection[int]]], replaced: dict[int, tuple[int, float]]
) -> set[int]:
    """Remove outputs that look newer than an input changed after their step started; returns these inputs.

    Args:
        replaced: the time, and the latest time of change, of inputs that may have changed.
    """
    if not replaced:
        return set()
    real, took = Path(os.path.realpath(folder)), step_times(folder)
    times: dict[str, tuple[int, int]] = {}
    for output, _ in made:
        with suppress(OSError):
            end = (folder / output).stat().st_mtime_ns
            times[output] = end - took.get(output, 0), end
    # The bounds of all steps: usually no input is a suspect, and then the outputs need no comparison one by one.
    first = min((begun for begun, _ in times.values()), default=0)
    last = max((end for _, end in times.values()), default=0)
    suspects = {n for n, (at, since) in replaced.items() if at <= last and first < since}
    found = set[int]()
    for output, inputs in made if suspects else ():
        begun, end = times.get(output, (0, -1))
        unseen = {
            n for n in suspects.intersection(inputs) if replaced[n][0] <= end and begun < replaced[n][1]
        }
        if unseen and real in Path(os.path.realpath(folder / output)).parents:
            (folder / output).unlink(missing_ok=True)
            found |= unseen
    return found


def _files_outside(
    paths: list[str],
    made: Iterable[tuple[str, Collection[int]]],
    folders: Iterable[Path],
    embedded: Collection[int],
) -> dict[int, tuple[Path, os.stat_result]]:
    """Find inputs outside of these folders (the first is the base of relative paths) that are not outputs.

    Embedded files are included wherever they are.
    """
    outputs = {output for output, _ in made}
    real = cache(os.path.realpath)
    first, *others = map(real, folders)
    within = tuple(folder + os.sep for folder in (first, *others))
    found = {}
    for number, path in enumerate(paths):
        if path in outputs:
            continue
        above, name = os.path.split(path)
        file = os.path.join(real(os.path.join(first, above)), name)  # noqa: PTH118 - a Path of each takes seconds
        if number in embedded or not file.startswith(within):
            with suppress(OSError, ValueError):
                status = os.stat(file)  # noqa: PTH116
                if stat.S_ISREG(status.st_mode):
                    found[number] = Path(file), status
    return found


def _describe_input(file: Path, status: os.stat_result, before: _Input | None) -> _Input:
    """Return the state of a file; it is read only if it has changed."""
    now = _Input(status.st_size, status.st_mtime_ns, inode_time(status))
    if before is not None and (before.size, before.time, before.changed) == (now.size, now.time, now.changed):
        return before
    content = str(now.time)
    if now.size <= _MOST_READ:
        with suppress(OSError):
            content = file_sha256(file).hex()
    return _Input(now.size, now.time, now.changed, content)


def _read_state(file: Path) -> dict[str, _Input]:
    try:
        state: Any = json.loads(file.read_text(encoding="utf-8", errors="surrogateescape"))
        return {
            path: _Input(int(size), int(at), int(changed), str(content))
            for path, (size, at, changed, content) in state.items()
        }
    # Without a record, inputs are judged by the times of their inodes.
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _write_state(file: Path, state: dict[str, _Input]) -> None:
    content = {path: [one.size, one.time, one.changed, one.content] for path, one in state.items()}
    atomic_write(file, json.dumps(content))
