"""Following a build while it runs: ninja's log and counts, and the programs that run, become its record."""

from __future__ import annotations

import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path, PurePath

from torchwheel._locks import machine
from torchwheel._supervisor import start_time
from torchwheel.host.compiler_cache import CCACHE_LOG, ccache_log
from torchwheel.host.ninja import Ended, NinjaLog, NotReadable, find_ninja, parse_progress, read_commands
from torchwheel.host.programs import Process, session_processes
from torchwheel.progress.estimate import Estimate
from torchwheel.progress.record import Build, Record, Running, Step, measured, read_record, write_record
from torchwheel.progress.screen import Screen, screen

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_BE_SEEN = 2 * _SECONDS_BETWEEN_LOOKS
_SECONDS_BETWEEN_WRITES = 2.0
_LEAST_REST = 20
"""Looking and writing rest this many times as long as they take of a processor: many cores run many programs."""

# As ninja and make count: "[12/345] Building CUDA object ..." and "[  3%] Building CXX object ...".
_COMPILED = re.compile(rb"\[\s*\d+(?:/\d+|%)\] Building \S+ object ")
_QUOTES = re.compile(r"""["'\\]""")
_OBJECTS = (".o", ".obj")
_MOST_SAMPLES = 1000
_MANIFEST = "build.ninja"


class Graph:
    """The steps that a build folder knows: which source each compiles, and which one a program belongs to."""

    def __init__(self, entries: Sequence[Mapping[str, str]] = (), *folders: str) -> None:
        self.sources: dict[str, str | None] = {}
        # Commands are long, and many: their hashes serve.
        self._by_command: dict[int, str] = {}
        for entry in entries:
            output, command = entry["output"], entry["command"]
            self.sources[output] = _inside(entry["file"], folders) if output.endswith(_OBJECTS) else None
            self._by_command[hash(command)] = output
            self._by_command[_key(command.rpartition("&& ")[2])] = output

    @classmethod
    def of(cls, build: Build, environment: Mapping[str, str]) -> Graph:
        """The graph of a build's folder; an empty one where ninja cannot tell."""
        ninja = find_ninja(environment)
        with suppress(NotReadable):
            if ninja:
                return cls(read_commands(ninja, Path(build.folder)), build.source, build.folder)
        return cls()

    def output(self, words: Sequence[str]) -> str | None:
        """The output of the step whose command a program runs: a shell that was given it, or what that became."""
        if len(words) == 3 and words[1] == "-c":
            return self._by_command.get(hash(words[2]))
        said = next((word for before, word in pairwise(words) if before == "-o"), None)
        return said if said in self.sources else self._by_command.get(_key(" ".join(words)))


def _inside(path: str, folders: Sequence[str]) -> str:
    """A path relative to the first folder that it is in; as it is in none of them."""
    file = PurePath(path)
    folder = next((one for one in folders if file.is_relative_to(one)), None)
    return (file.relative_to(folder) if folder is not None else file).as_posix()


def _key(command: str) -> int:
    """A command without a shell's quotes, which it no longer has once it runs."""
    return hash(_QUOTES.sub("", command))


class Follower:
    """Follows one build, and keeps its record.

    Args:
        path: gets the record, now and then.
        cache: torchwheel's cache folder, with the records of other builds.
        environment: the build's; its ninja is the one that is asked.

    Attributes:
        record: the record as it is now.
        compiled: how many files were compiled, as ninja or make said.
    """

    def __init__(self, build: Build, path: Path, cache: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._path, self._environment = Path(build.folder), path, environment
        self._cache = cache
        before = read_record(path)
        self._steps = {step.output: step for step in before.steps} if before else {}
        owner = (os.getpid(), start_time(os.getpid()), machine())
        now = time.time()
        self.record = Record(build, "running", now, now, steps=tuple(self._steps.values()), owner=owner)
        self.compiled = 0
        self._log = NinjaLog(self._folder)
        self._made_before = self._new()
        self._graph, self._begins, self._counts = Graph(), False, (0, 0)
        self._ninjas: set[int] = set()
        # When ninja began is known from what has just ended: not later than any of that says.
        self._began = float("inf")
        self._made: list[Ended] = []
        self._peaks: dict[str, int] = {}
        self._earlier: dict[str, Step] = {}
        self._answers: dict[str, bool] = {}
        self._places = (Path(build.source), self._folder)
        self._estimate = Estimate({}, {}, (), self._places)

    @contextmanager
    def follow(self, leader: int) -> Iterator[Callable[[bytes], None]]:
        """Follow the session of a process; what the block gets shows a line of its output."""
        over = threading.Event()
        with screen() as shown:
            thread = threading.Thread(target=self._watch, args=(leader, over, shown), daemon=True)
            thread.start()

            def show(line: bytes) -> None:
                self._count(line)
                shown.line(line)

            try:
                yield show
            finally:
                over.set()
                thread.join()
                with self._recording(shown):
                    self._look([])
                    self._write()

    def end(self, state: str) -> None:
        """Write the record of a build that ended as ``state`` says."""
        left = None if state == "done" else self.record.left
        self.record = replace(self.record, state=state, left=left, running=(), memory=None)
        self._write()

    def _count(self, line: bytes) -> None:
        self.compiled += _COMPILED.match(line) is not None
        found = parse_progress(line)
        if found is not None:
            # Without /proc this is where a ninja is seen to begin.
            self._begins |= found[0] < self._counts[0] or not self._counts[1]
            self._counts = found

    @contextmanager
    def _recording(self, shown: Screen) -> Iterator[None]:
        """Report that the recording failed and go on without it: no build of hours may end for that."""
        try:
            yield
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
            shown.line(f"torchwheel: what follows is not recorded: {said}\n".encode())

    def _watch(self, leader: int, over: threading.Event, shown: Screen) -> None:
        with self._recording(shown):
            self._record(leader, over, shown)

    def _record(self, leader: int, over: threading.Event, shown: Screen) -> None:
        rest, due = 0.0, 0.0
        while not over.wait(max(rest, _SECONDS_BETWEEN_LOOKS)):
            # Processor time: a busy machine alone is no reason to look less often.
            began = time.thread_time()
            processes = session_processes(leader)
            rest = _LEAST_REST * (time.thread_time() - began)
            self._look(processes)
            shown.update(self.record)
            if time.monotonic() >= due:
                began = time.thread_time()
                self._write()
                cost = _LEAST_REST * (time.thread_time() - began)
                due = time.monotonic() + max(_SECONDS_BETWEEN_WRITES, cost)

    def _look(self, processes: Sequence[Process]) -> None:
        now, (finished, total) = time.time(), self._counts
        begins, self._begins = self._begins, False
        ninjas = [process for process in processes if self._is_ninja(process)]
        started = {process.pid for process in ninjas} - self._ninjas
        if started or (begins and not self._ninjas):
            self._ninjas |= started
            self._begin()
        running = tuple(self._running(ninjas, processes, now))
        new = self._new()
        for ended in new:
            self._began = min(self._began, now - ended.end / 1e3)
            self._made.append(ended)
            if _MANIFEST in ended.outputs:
                # Made anew by CMake, and read anew by the same ninja, which counts from there.
                self._settle()
                self._begin()
        if new:
            self._answers = self._asked()
            self._settle()
        memory = sum(process.memory for process in processes) if processes else None
        steps = tuple(self._steps.values())
        self.record = replace(
            self.record,
            updated=now,
            finished=finished,
            total=total,
            memory=memory,
            running=running,
            steps=steps,
        )
        samples = _thinned((*self.record.samples, (round(now, 1), memory))) if memory else self.record.samples
        left = self._estimate.left(self.record, now)
        self.record = replace(
            self.record,
            left=left.seconds if left else None,
            guess=left is not None and left.guess,
            samples=samples,
        )

    def _asked(self) -> dict[str, bool]:
        """Which sources the compiler cache had, by the names that steps have them by."""
        build = self.record.build
        with suppress(OSError):
            # It lies where the compilers run, or beside the build's log.
            logs = (self._folder / CCACHE_LOG, self._path.with_name(CCACHE_LOG))
            read = (answer for log in logs for answer in ccache_log(log))
            answers = {source: kind == "hits" for source, kind in read if kind != "failures"}
            # ccache makes them relative to the folder that the compiler runs in.
            whole = ((os.path.normpath(self._folder / source), hit) for source, hit in answers.items())
            return {_inside(source, (build.source, build.folder)): hit for source, hit in whole}
        return {}

    def _begin(self) -> None:
        """Ninja begins, in the folder as it is now; its log's times are relative to this."""
        self._graph = Graph.of(self.record.build, self._environment)
        self._began, self._made, self._earlier = float("inf"), [], dict(self._steps)
        for ended in self._made_before:
            # Earlier builds made this and did not record it: they were killed, or of a release that kept no record.
            if self._output(ended) not in self._steps:
                self._keep(ended, ended.time / 1e9)
        self._made_before = []
        known = measured(self._cache, self._path)
        self._estimate = Estimate(known, self._graph.sources, set(self._steps), self._places)

    def _settle(self) -> None:
        for ended in self._made:
            self._keep(ended, self._began + ended.start / 1e3)

    def _new(self) -> list[Ended]:
        # What cannot be read is not recorded; the build goes on.
        with suppress(OSError):
            return self._log.read_new_steps()
        return []

    def _keep(self, ended: Ended, start: float) -> None:
        output, seconds = self._output(ended), (ended.end - ended.start) / 1e3
        # What was seen once or twice may have been about to take much more.
        peak = self._peaks.get(output) if seconds >= _SECONDS_TO_BE_SEEN else None
        source = self._graph.sources.get(output)
        cost: float | None = seconds
        hit = self._answers.get(source or "")
        if hit:
            # What it takes without the cache is known from before, if at all.
            before = self._earlier.get(output)
            peak, cost = (before.peak, before.cost) if before else (None, None)
        self._steps[output] = Step(
            output, source, round(start, 3), round(start + seconds, 3), peak, hit, cost
        )

    def _output(self, ended: Ended) -> str:
        return next((name for name in ended.outputs if name in self._graph.sources), ended.outputs[0])

    def _running(
        self, ninjas: Sequence[Process], processes: Sequence[Process], now: float
    ) -> Iterator[Running]:
        """The steps that run, each with the memory of all its programs, whose peaks are noted."""
        children: dict[int, list[Process]] = {}
        for process in processes:
            children.setdefault(process.parent, []).append(process)
        for step in (child for ninja in ninjas for child in children.get(ninja.pid, ())):
            output = self._graph.output(step.words)
            if output is not None:
                programs = list(_below(step, children))
                peak = sum(program.peak for program in programs)
                self._peaks[output] = max(peak, self._peaks.get(output, 0))
                memory = sum(program.memory for program in programs)
                yield Running(output, self._graph.sources[output], now - step.seconds, memory)

    def _is_ninja(self, process: Process) -> bool:
        """Whether it is the ninja of the build folder; CMake's probes have ninjas of their own."""
        if PurePath(process.words[0]).name != "ninja":
            return False
        try:
            return Path("/proc", str(process.pid), "cwd").samefile(self._folder)
        except OSError:
            return False

    def _write(self) -> None:
        with suppress(OSError):
            write_record(self._path, self.record)


def _thinned(samples: tuple[tuple[float, int], ...]) -> tuple[tuple[float, int], ...]:
    """At most so many samples, of which the larger of two neighbours stays."""
    if len(samples) <= _MOST_SAMPLES:
        return samples
    return tuple(max(pair, key=lambda one: one[1]) for pair in zip(samples[::2], samples[1::2], strict=False))


def _below(process: Process, children: Mapping[int, Sequence[Process]]) -> Iterator[Process]:
    yield process
    for child in children.get(process.pid, ()):
        yield from _below(child, children)


@contextmanager
def following(build: Build, path: Path, cache: Path, environment: Mapping[str, str]) -> Iterator[Follower]:
    """A follower of the build that the block makes; how that ended is in the record."""
    follower = Follower(build, path, cache, environment)
    try:
        yield follower
    except BaseException as error:
        follower.end("failed" if isinstance(error, Exception) else "interrupted")
        raise
    follower.end("done")
