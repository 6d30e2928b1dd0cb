"""The record of a build, beside its log: each step with its source, start, end and peak memory.

A record also has the last run of each step of earlier builds in the same folder, so that the build after an interrupted
one knows the finished steps, and a later build of a tree the durations of its files.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torchwheel.reporting.terminal import file_size, format_duration, format_estimate
from torchwheel.system.files import atomic_write, open_file
from torchwheel.system.locks import machine_id
from torchwheel.system.paths import is_closed
from torchwheel.system.supervisor import start_time

RECORD = "record.json"
"""The record's file name, in the folder of the build's log."""

LAST_BUILD = "last-build.txt"
"""The file in torchwheel's cache folder with the path of the latest build's log."""

_SHAPE = 2
_MOST_BYTES = 1 << 27
# A build writes its record every few seconds, which is all that another machine can see of it.
_SECONDS_WITHOUT_SIGN = 120
# Those of extensions that are compiled one by one are in a folder for each.
_RECORDS = (f"builds/*/{RECORD}", f"extensions/*/{RECORD}", f"extensions/*/*/{RECORD}")
_SECONDS_IN_MINUTE = 60
_MOST_NAMED = 4


@dataclass(frozen=True)
class _Step:
    """A ninja step, with its start in seconds since 1970.

    The source is relative to the build's source or folder, if it is in one of them; None if the step compiles nothing.
    """

    output: str
    source: str | None
    start: float

    @property
    def name(self) -> str:
        return self.source or self.output


@dataclass(frozen=True)
class TimedStep(_Step):
    """A finished step; peak (bytes) and cost (seconds) are of its last run that was no cache hit, if known."""

    end: float
    peak: int | None = None
    hit: bool | None = None
    cost: float | None = None

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.start)


@dataclass(frozen=True)
class Running(_Step):
    """A running step, with its memory in bytes."""

    memory: int


@dataclass(frozen=True)
class Build:
    """The identity of a build; of extensions it has few files, and no estimate of the time."""

    name: str
    tree: str
    source: str
    folder: str
    log: str
    jobs: int
    of_extensions: bool = False


@dataclass(frozen=True)
class BuildRecord:
    """The state of a build.

    Attributes:
        finished: finished steps by ninja's count, including failed ones.
        owner: the build's process id, its start (in the kernel's ticks), and the machine.
        guess: whether ``left`` is based on kinds of files more than on measurements.
    """

    build: Build
    state: str
    started: float
    updated: float
    finished: int = 0
    total: int = 0
    left: float | None = None
    memory: int | None = None
    running: tuple[Running, ...] = ()
    steps: tuple[TimedStep, ...] = ()
    owner: tuple[int, int | None, str] = (0, None, "")
    guess: bool = False

    @property
    def now(self) -> str:
        """``running``, ``done``, ``failed``, or ``ended`` for a build that was killed."""
        pid, began, where = self.owner
        if self.state != "running":
            return self.state
        if where and where == machine_id():
            return "running" if start_time(pid) == began else "ended"
        return "running" if time.time() - self.updated < _SECONDS_WITHOUT_SIGN else "ended"

    @property
    def made(self) -> tuple[TimedStep, ...]:
        """The steps that this build itself finished; an earlier build's clock may have been ahead."""
        return tuple(step for step in self.steps if self.started <= step.start <= self.updated)

    @property
    def facts(self) -> Iterator[str]:
        is_told = self.state == "running" and self.finished < self.total
        if self.left is not None and is_told and not (self.guess and self.build.of_extensions):
            if self.guess:
                yield f"about {format_estimate(self.left)} left, a guess"
            else:
                yield f"about {format_duration(self.left, coarse=True)} left"
        if self.memory:
            yield f"{file_size(self.memory)} of memory"
        if used := self.cache_use:
            yield f"{used} from the compiler cache"

    @property
    def cache_use(self) -> str:
        hits = [step.hit for step in self.made if step.hit is not None]
        return f"{sum(hits):,} of {len(hits):,}" if hits else ""

    @property
    def percent(self) -> int:
        return 100 * self.finished // self.total if self.total else 0

    def describe_progress(self, now: float) -> str:
        """Describe the progress in one line, with the steps that run for long; for extensions, with all that run."""
        steps = f"{self.finished:,} of {self.total:,} steps ({self.percent} %)"
        # Ninja prints the number of steps when the first one ends.
        text = ", ".join([steps if self.total else "the first steps", *self.facts])
        oldest = sorted(self.running, key=lambda one: one.start)
        if self.build.of_extensions:
            named = oldest[:_MOST_NAMED]
        else:
            named = [one for one in oldest[:1] if now - one.start >= _SECONDS_IN_MINUTE]
        since = ", ".join(f"{one.name} since {format_duration(now - one.start)}" for one in named)
        return f"{text}; {since}" if since else text


def write_build_record(path: Path, record: BuildRecord) -> None:
    document = {
        "shape": _SHAPE,
        **vars(record),
        "build": vars(record.build),
        "running": [vars(step) for step in record.running],
        "steps": [vars(step) for step in record.steps],
    }
    atomic_write(path, json.dumps(document, separators=(",", ":")))


def read_build_record(path: Path) -> BuildRecord | None:
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        if path.stat().st_size > _MOST_BYTES:
            return None
        with open_file(path) as stream:
            document = json.load(stream)
        if document.pop("shape") != _SHAPE:
            return None
        # This user's own cache, which is written whole; other fields raise TypeError.
        parts = {
            "build": Build(**document["build"]),
            "running": tuple(Running(**one) for one in document["running"]),
            "steps": tuple(TimedStep(**one) for one in document["steps"]),
            "owner": tuple(document["owner"]),
        }
        return BuildRecord(**{**document, **parts})
    return None


def read_build_records(cache: Path) -> Iterator[tuple[Path, BuildRecord]]:
    """Yield the records in a cache folder with their paths, the latest first.

    Raises:
        PermissionError: the folder may not be read.
    """
    # From Python 3.13 on glob() finds nothing in a folder that may not be read.
    if is_closed(cache):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(cache))
    paths = [path for pattern in _RECORDS for path in cache.glob(pattern)]
    with suppress(OSError, ValueError):
        # It may be elsewhere because of the setting build-dir.
        paths.append(Path((cache / LAST_BUILD).read_text(encoding="utf-8")).with_name(RECORD))
    found = [
        (path, record) for path in dict.fromkeys(paths) if (record := read_build_record(path)) is not None
    ]
    yield from sorted(found, key=lambda one: one[1].updated, reverse=True)


def measured_steps(cache: Path, own: Path) -> dict[str, TimedStep]:
    """Return measured steps by output, from all builds in a cache folder; all have a cost."""
    known: dict[str, TimedStep] = {}
    others = [record for path, record in read_build_records(cache) if path != own]
    last = read_build_record(own)
    # The oldest first, so that later measurements replace earlier ones.
    for record in [*reversed(others), *([last] if last else [])]:
        known.update((step.output, step) for step in record.steps if step.cost is not None)
    return known
