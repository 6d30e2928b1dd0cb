"""The record of what each step of a build read: files, programs and variables.

Ninja's own files list the inputs of each output, including system headers; :mod:`torchwheel.engine.step_files` finds
the others. Their content at the last build is recorded beside the outputs, with a digest of the environment.

Before the next build, outputs are invalidated whose inputs changed without ninja noticing: it watches only some, and
compares only times. A file may be replaced by one with an older time: apt, conda, tar and rsync preserve times. A
source may also be edited while it is compiled: the object is finished later and looks newer to ninja 1.11.1 (1.13
compares with the start of the step).
"""

from __future__ import annotations

import json
import math
import os
import platform
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from torchwheel.engine.step_files import CommandFiles, named_by_directives, real_places
from torchwheel.host.ninja import forget_steps, graph_stamps, read_dependencies, read_steps, step_times
from torchwheel.reporting.terminal import join_items, say
from torchwheel.system.files import atomic_write, file_sha256, inode_time, read_beginning, read_state

STATE = "made-from.json"
"""The record, beside the outputs: inputs with their content, and the environment of the project's own commands."""

# Larger files, such as CUDA's libraries, are compared by size and time.
_MOST_READ = 1 << 24
_MOST_SCRIPT = 1 << 20


@dataclass(frozen=True)
class BuildInputs:
    """Where a build's inputs are.

    Attributes:
        variables: a digest of those that a command of the project's own may read.
        named: others, with their values, that only a command reads that names them, or whose script does.
        besides: folders where every changed file looks newer.
    """

    folder: Path
    sources: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    variables: str = ""
    named: Mapping[str, str] = field(default_factory=dict)
    besides: Collection[Path] = ()


class _Input(NamedTuple):
    """An input; its times, ``changed`` of its inode, in nanoseconds since 1970; ``content`` is empty without a file."""

    size: int
    time: int
    changed: int
    content: str = ""


_ABSENT = _Input(0, 0, 0)


@dataclass(frozen=True)
class _Graph:
    """What a build's outputs are made of.

    Attributes:
        paths: the inputs, as ninja's files or the commands name them.
        made: outputs, each with the indices of its inputs.
        unwatched: the inputs that ninja does not compare; ``directed`` are those of them that directives name.
        generators: the outputs of the project's own commands, each with its command and the files that this names.
    """

    paths: list[str]
    made: list[tuple[str, Collection[int]]]
    unwatched: Collection[int]
    directed: set[int]
    generators: Mapping[str, tuple[str, Collection[str]]]

    def generators_that_name(self, variables: Collection[str]) -> set[str]:
        """The outputs of the project's own commands that name one of the variables, also in a script."""

        @cache
        def names_one(file: str) -> bool:
            text = read_beginning(Path(file), _MOST_SCRIPT)
            return any(name in text for name in variables)

        return {
            output
            for output, (command, files) in self.generators.items()
            if any(name in command for name in variables) or any(map(names_one, files))
        }

    def read_inputs(self, inputs: BuildInputs) -> Iterator[tuple[int, str, os.stat_result | None]]:
        """Yield index, file and status (None without one) of inputs that are unwatched or outside of the build."""
        outputs = {output for output, _ in self.made}
        within = tuple(os.path.realpath(folder) + os.sep for folder in (inputs.folder, *inputs.besides))
        for number, (path, file) in enumerate(real_places(inputs.folder, self.paths)):
            if path not in outputs and (number in self.unwatched or not file.startswith(within)):
                yield number, file, _regular_status(file)


@contextmanager
def invalidate_unseen_changes(inputs: BuildInputs) -> Iterator[dict[str, str]]:
    """Invalidate outputs whose inputs changed without looking newer; yields variables for ninja, run in the block."""
    folder = inputs.folder
    began, state = time.time_ns(), folder / STATE
    (known, variables, named, indirect), stamps = _read_state(state), graph_stamps(folder)
    graph = _read_graph(inputs)
    marks: dict[str, _Input] = {}
    replaced: dict[int, tuple[int, float]] = {}
    for number, file, status in graph.read_inputs(inputs):
        # By ninja's name, because a link may lead elsewhere now.
        path, unwatched = graph.paths[number], number in graph.unwatched
        before = known.get(path)
        if status is None and not unwatched:
            continue
        now = _describe_input(file, status, before)
        # Ninja compares only the times of inputs that it knows.
        looks = 0 if unwatched else now.time
        if before is None:
            # The inode has the time of the change.
            replaced[number] = looks, max(now.time, now.changed)
        elif before.content != now.content:
            replaced[number] = looks, math.inf
        marks[path] = now
    if again := {_absolute(folder, graph.paths[n]) for n in _invalidate_outdated(folder, graph, replaced)}:
        names = join_items(sorted(again))
        say(f"changed since it was compiled, undetected by ninja; compiled again: {names}")
    if variables not in (None, inputs.variables):
        forget_steps(folder, graph.generators.keys())
    elif others := {name for name, value in inputs.named.items() if named.get(name, value) != value}:
        forget_steps(folder, graph.generators_that_name(others))
    changed = any(replaced[number][1] == math.inf for number in graph.directed.intersection(replaced))
    indirect = indirect or changed
    # After the removal, because a kill between the two must not hide the change.
    if (marks, inputs.variables, inputs.named) != (known, variables, named) or changed:
        _write_record(state, marks, inputs, indirect=indirect)
    finished = False
    try:
        # ccache's direct mode does not notice that a header appears.
        yield {"CCACHE_NODIRECT": "1"} if indirect else {}
        finished = True
    finally:
        # Otherwise nothing was built.
        if graph_stamps(folder) != stamps:
            graph = _read_graph(inputs)
            # Files changed meanwhile may have been read before or after that.
            read = {
                graph.paths[number]: marks.get(graph.paths[number]) or _describe_input(file, status, None)
                for number, file, status in graph.read_inputs(inputs)
                if graph.paths[number] in marks or _is_older(file, status, began, number in graph.unwatched)
            }
            with suppress(OSError):
                # An error here would hide the build's own, and the record from before the build is still valid.
                if read != marks or indirect:
                    _write_record(state, read, inputs, indirect=indirect and not finished)


def _is_older(file: str, status: os.stat_result | None, began: int, unwatched: bool) -> bool:
    """Whether a new input's content is certain: it has not changed since the build began."""
    if status is None:
        return unwatched
    changed = inode_time(status)
    if status.st_nlink > 1:
        # A link to it elsewhere changes this time, as where uv installs its package; replacing it changes its folder.
        with suppress(OSError):
            changed = min(changed, os.stat(os.path.dirname(file)).st_mtime_ns)  # noqa: PTH116, PTH120
    return max(status.st_mtime_ns, changed) < began


def recorded_contents(folder: Path) -> dict[str, str] | None:
    """The recorded inputs of a build folder with a mark of their content; None without a record."""
    inputs, variables, *_ = _read_state(folder / STATE)
    return None if variables is None else {path: one.content for path, one in inputs.items()}


def _regular_status(file: str) -> os.stat_result | None:
    with suppress(OSError, ValueError):
        status = os.stat(file)  # noqa: PTH116
        return status if stat.S_ISREG(status.st_mode) else None
    return None


def _read_graph(inputs: BuildInputs) -> _Graph:
    folder = inputs.folder
    paths, made = read_dependencies(folder)
    outputs = {output for output, _ in made}
    others = [path for path in paths if path not in outputs]
    named = named_by_directives(folder, inputs.sources, others, inputs.environment)
    by_path = {path: number for number, path in enumerate(paths)}
    places = {_absolute(folder, path): number for number, path in enumerate(paths)}

    def place(files: set[str]) -> set[int]:
        for file in files - places.keys():
            places[file] = len(paths)
            paths.append(file)
        return {places[file] for file in files}

    own = {_absolute(folder, output) for output in outputs}
    directed = {by_path[path]: place(files - own) for path, files in named.items()}
    commands = CommandFiles(folder, inputs.environment, platform.system())
    steps = [step for step in read_steps(folder) if step.is_run]
    in_commands = {output: commands.of_step(step) - own for step in steps for output in step.outputs}
    watched: dict[str, set[int]] = {}
    for output, known in made:
        watched.setdefault(output, set()).update(known)
    unwatched = {
        output: {*place(in_commands.get(output, set())), *(n for one in known for n in directed.get(one, ()))}
        - known
        for output, known in watched.items()
    }
    return _Graph(
        paths,
        [(output, known | unwatched[output]) for output, known in watched.items()],
        set[int]().union(*unwatched.values()),
        set[int]().union(*directed.values()),
        {
            output: (step.command, in_commands[output])
            for step in steps
            if step.is_generator
            for output in step.outputs
        },
    )


def _absolute(folder: Path, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118


def _invalidate_outdated(folder: Path, graph: _Graph, replaced: dict[int, tuple[int, float]]) -> set[int]:
    """Invalidate outputs that look newer than a ``replaced`` input (time, latest change); returns these inputs."""
    if not replaced:
        return set()
    real, took = Path(os.path.realpath(folder)), step_times(folder)
    times: dict[str, tuple[int, int]] = {}
    for output, _ in graph.made:
        with suppress(OSError):
            end = (folder / output).stat().st_mtime_ns
            times[output] = end - took.get(output, 0), end
    # The bounds of all steps: usually no input is a suspect, and then the outputs need no comparison one by one.
    first = min((begun for begun, _ in times.values()), default=0)
    last = max((end for _, end in times.values()), default=0)
    suspects = {n for n, (at, since) in replaced.items() if at <= last and first < since}
    found, generated = set[int](), set[str]()
    for output, inputs in graph.made if suspects else ():
        begun, end = times.get(output, (0, -1))
        unseen = {
            n for n in suspects.intersection(inputs) if replaced[n][0] <= end and begun < replaced[n][1]
        }
        if unseen and output in graph.generators:
            generated.add(output)
        elif unseen and real in Path(os.path.realpath(folder / output)).parents:
            (folder / output).unlink(missing_ok=True)
        else:
            continue
        found |= unseen
    forget_steps(folder, generated)
    return found


def _describe_input(file: str, status: os.stat_result | None, before: _Input | None) -> _Input:
    """The state of a file; it is read only if it has changed."""
    if status is None:
        return _ABSENT
    now = _Input(status.st_size, status.st_mtime_ns, inode_time(status))
    if before is not None and before[:3] == now[:3]:
        return before
    content = str(now.time)
    if now.size <= _MOST_READ:
        with suppress(OSError):
            content = file_sha256(Path(file)).hex()
    return _Input(now.size, now.time, now.changed, content)


def _read_state(file: Path) -> tuple[dict[str, _Input], str | None, dict[str, str], bool]:
    """The inputs, the digest of the variables (None without a record), the named ones, and ``indirect``."""
    with suppress(KeyError, ValueError, TypeError, AttributeError):
        state: Any = read_state(file)
        inputs = {path: _Input(*one) for path, one in state["inputs"].items()}
        return inputs, str(state["variables"]), dict(state["named"]), bool(state["indirect"])
    # Without a record, inputs are judged by the times of their inodes.
    return {}, None, {}, False


def _write_record(file: Path, read: Mapping[str, _Input], inputs: BuildInputs, *, indirect: bool) -> None:
    state = {"inputs": read, "variables": inputs.variables, "named": dict(inputs.named), "indirect": indirect}
    atomic_write(file, json.dumps(state))
