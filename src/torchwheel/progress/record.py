"""The record of a build: each step with its source, start, end and peak memory, beside the build's log.

A record keeps the steps of earlier builds in the same folder too, each as it was made last: what a build that was
interrupted has made is known to the next, and a later build of a tree knows how long its files take.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from torchwheel._files import atomic_write, open_file
from torchwheel._locks import machine
from torchwheel._supervisor import start_time
from torchwheel.terminal import duration, file_size, rough

RECORD = "record.json"
"""The record's name, in the folder of the build's log."""

LAST_BUILD = "last-build.txt"
"""Names the log of the latest build in torchwheel's cache folder."""

_SHAPE = 1
_MOST_BYTES = 1 << 27
_MOST = 1e14
"""No memory has as many bytes."""
_LATEST = 1e10
"""No build began or ended so many seconds after 1970: that is the year 2286."""
_SECONDS_WITHOUT_SIGN = 120
_FOLDERS = ("builds", "extensions")
_BUILD = {"name": str, "tree": str, "source": str, "folder": str, "log": str, "jobs": int}
_NUMBERS = ("start", "end", "started", "updated", "finished", "total")
_TEXTS = ("output", "state")
_SECONDS_IN_MINUTE = 60
_MOST_NAMED = 4


@dataclass(frozen=True)
class Step:
    """A step of ninja's that ended.

    Attributes:
        output: the file it makes, relative to the folder that ninja builds in.
        source: the source file that it compiles, relative to the build's source or its folder if it is in one of
            them; None for what compiles nothing.
        start: when it began, in seconds since 1970.
        peak: the most memory its programs had together when no compiler cache answered, in bytes; None where the
            system does not tell, or where it was too short to be seen.
        hit: whether a compiler cache had the result; None where that is not known.
        cost: the seconds that it took when no compiler cache answered; None where that was never seen.
    """

    output: str
    source: str | None
    start: float
    end: float
    peak: int | None = None
    hit: bool | None = None
    cost: float | None = None

    @property
    def name(self) -> str:
        """What is made, as one knows it: the source, else the output."""
        return self.source or self.output

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.start)


@dataclass(frozen=True)
class Running:
    """A step that is being made: its output, its source, since when (seconds since 1970), its memory in bytes."""

    output: str
    source: str | None
    start: float
    memory: int

    @property
    def name(self) -> str:
        return self.source or self.output


@dataclass(frozen=True)
class Build:
    """What is built where.

    Attributes:
        name: the wheel's name, or the project's.
        source: the copy of it that is compiled, or itself.
        folder: the folder that ninja builds in.
        jobs: how many steps may run at once.
        of_extensions: whether they are a project's extensions: few files, whose time is not known beforehand.
    """

    name: str
    tree: str
    source: str
    folder: str
    log: str
    jobs: int
    of_extensions: bool = False


@dataclass(frozen=True)
class Record:
    """A build as far as it came.

    Attributes:
        state: ``running``, ``done`` or ``failed``, as the build said when it was written.
        started: when it began, in seconds since 1970.
        updated: when this was written.
        finished: the steps that ended, by ninja's count, which counts those that failed.
        total: the steps that are to be made; 0 before ninja runs.
        left: the seconds that the steps may still take; None where nothing is known of them.
        memory: what its programs have now, in bytes; None where the system does not tell.
        steps: what was made, also by earlier builds in the same folder.
        samples: times (seconds since 1970) and the memory of all programs at each, in bytes; few enough for a picture.
        owner: the number of the build's process, when it was started (in the kernel's ticks), and on which machine.
        guess: whether ``left`` rests on the kinds of files more than on what was measured.
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
    steps: tuple[Step, ...] = ()
    samples: tuple[tuple[float, int], ...] = ()
    owner: tuple[int, int | None, str] = (0, None, "")
    guess: bool = False

    @property
    def now(self) -> str:
        """``running``, ``done``, ``failed``, or ``ended`` for a build that was killed before it could say so."""
        pid, began, where = self.owner
        if self.state != "running":
            return self.state
        if where and where == machine():
            return "running" if start_time(pid) == began else "ended"
        return "running" if time.time() - self.updated < _SECONDS_WITHOUT_SIGN else "ended"

    @property
    def made(self) -> tuple[Step, ...]:
        """The steps that this build made itself; an earlier one's clock may have been ahead."""
        return tuple(step for step in self.steps if self.started <= step.start <= self.updated)

    @property
    def facts(self) -> Iterator[str]:
        """What is worth knowing beside the count of steps: time left, memory, answers of the compiler cache."""
        is_known = self.left is not None and not (self.guess and self.build.of_extensions)
        if self.left is not None and is_known and self.state == "running" and self.finished < self.total:
            left = (
                f"{rough(self.left)} left, a guess"
                if self.guess
                else f"{duration(self.left, coarse=True)} left"
            )
            yield f"about {left}"
        if self.memory:
            yield f"{file_size(self.memory)} of memory"
        if used := self.cache_use:
            yield f"{used} from the compiler cache"

    @property
    def cache_use(self) -> str:
        """How many compilations of this build a compiler cache answered, ``3 of 7``; empty where nobody knows."""
        hits = [step.hit for step in self.made if step.hit is not None]
        return f"{sum(hits):,} of {len(hits):,}" if hits else ""

    @property
    def percent(self) -> int:
        """Whole per cent of ninja's steps that ended; 100 only when all have."""
        return 100 * self.finished // self.total if self.total else 0

    def progress(self, now: float) -> str:
        """The progress in one line, with what has been running for long; of extensions, all that runs."""
        # Ninja tells how many steps there are when the first one ends.
        steps = (
            f"{self.finished:,} of {self.total:,} steps ({self.percent} %)"
            if self.total
            else "the first steps"
        )
        text = ", ".join([steps, *self.facts])
        oldest = sorted(self.running, key=lambda one: one.start)
        if self.build.of_extensions:
            named = oldest[:_MOST_NAMED]
        else:
            named = [one for one in oldest[:1] if now - one.start >= _SECONDS_IN_MINUTE]
        since = ", ".join(f"{one.name} since {duration(now - one.start)}" for one in named)
        return f"{text}; {since}" if since else text


def write_record(path: Path, record: Record) -> None:
    """Write a record.

    Raises:
        OSError: it cannot be written.
    """
    document = {
        "shape": _SHAPE,
        **vars(record),
        "build": vars(record.build),
        "running": [vars(step) for step in record.running],
        "steps": [vars(step) for step in record.steps],
    }
    atomic_write(path, json.dumps(document, separators=(",", ":")))


def read_record(path: Path) -> Record | None:
    """Read a record; None if there is none, or none that this release understands."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        with open_file(path) as stream:
            document = json.load(stream)
        return _record(document) if document.pop("shape") == _SHAPE else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _record(document: Mapping[str, Any]) -> Record:
    whole = dict(document)
    build = whole["build"]
    named = {name: kind(build[name]) for name, kind in _BUILD.items()}
    whole["build"] = Build(**named, of_extensions=bool(build.get("of_extensions")))
    whole["running"] = tuple(Running(**_checked(one)) for one in whole["running"])
    whole["steps"] = tuple(Step(**_checked(one)) for one in whole["steps"])
    whole["samples"] = tuple((when, memory) for when, memory in whole["samples"])
    if not all(map(_is_number, chain.from_iterable(whole["samples"]))):
        raise TypeError
    pid, began, where = whole["owner"]
    whole["owner"] = (int(pid), None if began is None else int(began), str(where))
    return Record(**_checked(whole))


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, if numbers are numbers, which a time and a memory may be, and texts are texts.

    Raises:
        TypeError: they are not.
    """
    numbers = [fields[name] for name in _NUMBERS if name in fields]
    numbers += [fields[name] for name in ("peak", "memory", "left", "cost") if fields.get(name) is not None]
    texts = [fields[name] for name in _TEXTS if name in fields]
    texts += [fields["source"]] if fields.get("source") is not None else []
    if not all(map(_is_number, numbers)) or not all(type(one) is str for one in texts):
        raise TypeError
    if any(fields.get(name, 0.0) > _LATEST for name in ("start", "end", "started", "updated")):
        raise TypeError
    if fields.get("hit") not in (None, True, False) or fields.get("guess") not in (None, True, False):
        raise TypeError
    return fields


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST


def records(cache: Path) -> Iterator[tuple[Path, Record]]:
    """The records in a cache folder and where they lie, the latest first."""
    paths = [path for folder in _FOLDERS for path in (cache / folder).glob(f"*/{RECORD}")]
    with suppress(OSError, ValueError):
        # It may lie elsewhere, by the setting build-dir.
        paths.append(Path((cache / LAST_BUILD).read_text(encoding="utf-8")).with_name(RECORD))
    found = [(path, record) for path in dict.fromkeys(paths) if (record := read_record(path)) is not None]
    yield from sorted(found, key=lambda one: one[1].updated, reverse=True)


def measured(cache: Path, own: Path) -> dict[str, Step]:
    """What is known of steps by the names of their outputs, from all builds in a cache folder: all have a cost.

    Args:
        cache: torchwheel's cache folder.
        own: the record of the build in question, which knows best.
    """
    known: dict[str, Step] = {}
    others = [record for path, record in records(cache) if path != own]
    last = read_record(own)
    for record in [*reversed(others), *([last] if last else [])]:
        known.update((step.output, step) for step in record.steps if step.cost is not None)
    return known
