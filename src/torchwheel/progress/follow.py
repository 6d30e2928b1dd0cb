"""Follow a running build: record it from ninja's log, its counts and the running processes, and display it."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Protocol

from torchwheel.host.compiler_cache import CCACHE_LOG, ccache_log
from torchwheel.host.ninja import Ended, NinjaLog, NotReadable, find_ninja, parse_progress, read_commands
from torchwheel.host.programs import Process, session_processes
from torchwheel.progress.build_record import (
    Build,
    BuildRecord,
    Running,
    TimedStep,
    measured_steps,
    read_build_record,
    write_build_record,
)
from torchwheel.progress.estimate import Estimate
from torchwheel.reporting.terminal import QUIET, forward
from torchwheel.system.locks import machine_id
from torchwheel.system.supervisor import start_time

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_BE_SEEN = 2 * _SECONDS_BETWEEN_LOOKS
_SECONDS_BETWEEN_WRITES = 2.0
_LEAST_REST = 20
"""Pause between looks, as a multiple of their processor time, because many cores run many processes."""

# Output of ninja and make: "[12/345] Building CUDA object ..." and "[  3%] Building CXX object ...".
_COMPILED = re.compile(rb"\[\s*\d+(?:/\d+|%)\] Building \S+ object ")
_QUOTES = re.compile(r"""["'\\]""")


class Graph:
    """The steps of a build folder: the source of each, and the step that a process belongs to."""

    def __init__(self, entries: Sequence[Mapping[str, str]] = (), *folders: str) -> None:
        self.sources: dict[str, str | None] = {}
        # Hashes, because there are many long commands.
        self._by_command: dict[int, str] = {}
        for entry in entries:
            output, command = entry["output"], entry["command"]
            self.sources[output] = (
                _relative_to_any(entry["file"], folders) if output.endswith((".o", ".obj")) else None
            )
            self._by_command[hash(command)] = output
            self._by_command[_command_key(command.rpartition("&& ")[2])] = output

    @classmethod
    def of(cls, build: Build, environment: Mapping[str, str]) -> Graph:
        ninja = find_ninja(environment)
        with suppress(NotReadable):
            if ninja:
                return cls(read_commands(ninja, Path(build.folder)), build.source, build.folder)
        return cls()

    def find_output(self, words: Sequence[str]) -> str | None:
        """Find a process's step: a shell with the step's command, or the command itself."""
        if len(words) == 3 and words[1] == "-c":
            return self._by_command.get(hash(words[2]))
        said = next((word for before, word in pairwise(words) if before == "-o"), None)
        return said if said in self.sources else self._by_command.get(_command_key(" ".join(words)))


def _relative_to_any(path: str, folders: Sequence[str]) -> str:
    file = PurePath(path)
    folder = next((one for one in folders if file.is_relative_to(one)), None)
    return (file.relative_to(folder) if folder is not None else file).as_posix()


def _command_key(command: str) -> int:
    """Hash a command without its shell quotes, which a running process does not show."""
    return hash(_QUOTES.sub("", command))


class Follower:
    def __init__(self, build: Build, path: Path, cache: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._path, self._environment = Path(build.folder), path, environment
        self._cache = cache
        before = read_build_record(path)
        self._steps = {step.output: step for step in before.steps} if before else {}
        owner = (os.getpid(), start_time(os.getpid()), machine_id())
        now = time.time()
        self.record = BuildRecord(build, "running", now, now, steps=tuple(self._steps.values()), owner=owner)
        self.compiled = 0
        self._log = NinjaLog(self._folder)
        # Those of earlier builds are in their record.
        self._read_new_steps()
        self._graph, self._begins, self._counts = Graph(), False, (0, 0)
        self._ninjas: set[int] = set()
        # Ninja's start is the earliest that its newly finished steps imply.
        self._began = float("inf")
        self._made: list[Ended] = []
        self._peaks: dict[str, int] = {}
        self._earlier: dict[str, TimedStep] = {}
        self._answers: dict[str, bool] = {}
        self._places = (Path(build.source), self._folder)
        self._estimate = Estimate({}, {}, (), self._places)

    @contextmanager
    def follow_session(self, leader: int) -> Iterator[Callable[[bytes], None]]:
        """Follow the session of a process; yields the function that shows a line of its output."""
        over = threading.Event()
        with open_screen() as shown:
            thread = threading.Thread(target=self._watch_session, args=(leader, over, shown), daemon=True)
            thread.start()

            def show(line: bytes) -> None:
                self.compiled += _COMPILED.match(line) is not None
                if (found := parse_progress(line)) is not None:
                    # Without /proc this is the only sign that ninja starts.
                    self._begins |= found[0] < self._counts[0] or not self._counts[1]
                    self._counts = found
                shown.show_line(line)

            try:
                yield show
            finally:
                over.set()
                thread.join()
                with self._report_failures(shown):
                    # Ninja may have logged its last steps since the previous look.
                    self._look_at_processes([])
                    self._write_record()

    def finish(self, state: str) -> None:
        left = None if state == "done" else self.record.left
        self.record = replace(self.record, state=state, left=left, running=(), memory=None)
        self._write_record()

    @contextmanager
    def _report_failures(self, shown: Screen) -> Iterator[None]:
        """Report that recording failed and continue without it, because that must not end a long build."""
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
            shown.show_line(f"torchwheel: what follows is not recorded: {said}\n".encode())

    def _watch_session(self, leader: int, over: threading.Event, shown: Screen) -> None:
        rest, due = 0.0, 0.0
        with self._report_failures(shown):
            while not over.wait(max(rest, _SECONDS_BETWEEN_LOOKS)):
                # Processor time, because a busy machine alone is no reason to look less often.
                began = time.thread_time()
                processes = session_processes(leader)
                rest = _LEAST_REST * (time.thread_time() - began)
                self._look_at_processes(processes)
                shown.show_progress(self.record)
                if time.monotonic() >= due:
                    began = time.thread_time()
                    self._write_record()
                    cost = _LEAST_REST * (time.thread_time() - began)
                    due = time.monotonic() + max(_SECONDS_BETWEEN_WRITES, cost)

    def _look_at_processes(self, processes: Sequence[Process]) -> None:
        now, (finished, total) = time.time(), self._counts
        begins, self._begins = self._begins, False
        ninjas = [process for process in processes if self._is_ninja(process)]
        started = {process.pid for process in ninjas} - self._ninjas
        if started or (begins and not self._ninjas):
            self._ninjas |= started
            self._begin_run()
        running = tuple(self._find_running(ninjas, processes, now))
        new = self._read_new_steps()
        for ended in new:
            self._began = min(self._began, now - ended.end / 1e3)
            self._made.append(ended)
            if "build.ninja" in ended.outputs:
                # CMake regenerated the graph, and the same ninja restarts its count.
                self._record_all()
                self._begin_run()
        if new:
            self._answers = self._read_cache_answers()
            self._record_all()
        memory = sum(process.memory for process in processes) if processes else None
        record = replace(self.record, updated=now, finished=finished, total=total, memory=memory)
        self.record = replace(record, running=running, steps=tuple(self._steps.values()))
        left, guess = self._estimate.estimate_left(self.record, now)
        self.record = replace(self.record, left=left, guess=guess)

    def _read_cache_answers(self) -> dict[str, bool]:
        """Read cache hits by source, named as in the steps."""
        build = self.record.build
        with suppress(OSError):
            # It is in the compilers' folder or beside the build's log.
            logs = (self._folder / CCACHE_LOG, self._path.with_name(CCACHE_LOG))
            read = (answer for log in logs for answer in ccache_log(log))
            answers = {source: kind == "hits" for source, kind in read if kind != "failures"}
            # ccache names sources relative to the compiler's working folder.
            whole = ((os.path.normpath(self._folder / source), hit) for source, hit in answers.items())
            return {_relative_to_any(source, (build.source, build.folder)): hit for source, hit in whole}
        return {}

    def _begin_run(self) -> None:
        self._graph = Graph.of(self.record.build, self._environment)
        self._began, self._made, self._earlier = float("inf"), [], dict(self._steps)
        known = measured_steps(self._cache, self._path)
        self._estimate = Estimate(known, self._graph.sources, set(self._steps), self._places)

    def _record_all(self) -> None:
        for ended in self._made:
            self._record_step(ended, self._began + ended.start / 1e3)

    def _read_new_steps(self) -> list[Ended]:
        # If the log cannot be read, nothing is recorded; the build continues.
        with suppress(OSError):
            return self._log.read_new_steps()
        return []

    def _record_step(self, ended: Ended, start: float) -> None:
        named = (name for name in ended.outputs if name in self._graph.sources)
        output, seconds = next(named, ended.outputs[0]), (ended.end - ended.start) / 1e3
        # A process seen only once or twice may not have reached its peak.
        peak = self._peaks.get(output) if seconds >= _SECONDS_TO_BE_SEEN else None
        source = self._graph.sources.get(output)
        cost: float | None = seconds
        hit = self._answers.get(source or "")
        if hit:
            # Its time without the cache is known only from an earlier build.
            before = self._earlier.get(output)
            peak, cost = (before.peak, before.cost) if before else (None, None)
        began, end = round(start, 3), round(start + seconds, 3)
        self._steps[output] = TimedStep(output, source, began, end, peak, hit, cost)

    def _find_running(
        self, ninjas: Sequence[Process], processes: Sequence[Process], now: float
    ) -> Iterator[Running]:
        """Yield the running steps with the memory of their processes, and record the peaks."""
        children: dict[int, list[Process]] = {}
        for process in processes:
            children.setdefault(process.parent, []).append(process)
        for step in (child for ninja in ninjas for child in children.get(ninja.pid, ())):
            if (output := self._graph.find_output(step.words)) is not None:
                programs = list(_with_descendants(step, children))
                peak = sum(program.peak for program in programs)
                self._peaks[output] = max(peak, self._peaks.get(output, 0))
                memory = sum(program.memory for program in programs)
                yield Running(output, self._graph.sources[output], now - step.seconds, memory)

    def _is_ninja(self, process: Process) -> bool:
        """Whether it is the ninja of the build folder; CMake's probes run others."""
        if PurePath(process.words[0]).name != "ninja":
            return False
        with suppress(OSError):
            return Path("/proc", str(process.pid), "cwd").samefile(self._folder)
        return False

    def _write_record(self) -> None:
        with suppress(OSError):
            write_build_record(self._path, self.record)


def _with_descendants(process: Process, children: Mapping[int, Sequence[Process]]) -> Iterator[Process]:
    yield process
    for child in children.get(process.pid, ()):
        yield from _with_descendants(child, children)


@contextmanager
def follow_build(build: Build, path: Path, cache: Path, environment: Mapping[str, str]) -> Iterator[Follower]:
    follower = Follower(build, path, cache, environment)
    try:
        yield follower
    except BaseException as error:
        follower.finish("failed" if isinstance(error, Exception) else "interrupted")
        raise
    follower.finish("done")


SECONDS_BETWEEN_LINES = 60.0
_SECONDS_OF_PAUSE = 5.0


class Screen(Protocol):
    """Shows output and progress, which may come at once from two threads."""

    def show_line(self, line: bytes) -> None: ...

    def show_progress(self, record: BuildRecord) -> None: ...


def open_screen() -> AbstractContextManager[Screen]:
    if QUIET.get():
        return nullcontext(_Nothing())
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown"):
        # Importing rich takes a tenth of a second, and only a terminal needs it.
        from torchwheel.progress.bar import progress_bar

        return progress_bar()
    return nullcontext(_Lines())


class _Nothing:
    def show_line(self, line: bytes) -> None: ...

    def show_progress(self, record: BuildRecord) -> None: ...


class _Lines:
    """Shows all output as it comes, and a line of torchwheel's from time to time.

    Ninja prints the output of a step at once, so a line before one of ninja's own, or after a pause, never splits a
    compiler's errors.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due = time.monotonic() + SECONDS_BETWEEN_LINES
        self._latest = time.monotonic()
        self._text = ""

    def show_line(self, line: bytes) -> None:
        with self._lock:
            if parse_progress(line):
                self._write_progress()
            forward(line)
            self._latest = time.monotonic()

    def show_progress(self, record: BuildRecord) -> None:
        with self._lock:
            is_running = record.finished < record.total or (record.build.of_extensions and record.running)
            self._text = record.describe_progress(time.time()) if is_running else ""
            if time.monotonic() - self._latest >= _SECONDS_OF_PAUSE:
                self._write_progress()

    def _write_progress(self) -> None:
        if self._text and time.monotonic() >= self._due:
            forward(f"torchwheel: {self._text}\n".encode())
            self._due = time.monotonic() + SECONDS_BETWEEN_LINES
