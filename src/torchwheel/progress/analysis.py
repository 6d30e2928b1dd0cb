"""Analyse the record of a build: its timeline, slowest steps, critical path, and time by component and kind."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

from torchwheel.progress.build_record import BuildRecord, TimedStep
from torchwheel.system.paths import is_file

_SECONDS_OF_A_BREAK = 60.0
# CMake's path of a target's object: FOLDER/CMakeFiles/TARGET.dir/source.cpp.o
_TARGET = re.compile(r"(?:.*/)?CMakeFiles/([^/]+)\.dir/.*")
_LIBRARY = re.compile(r".*\.(?:so|dylib|dll|pyd|a|lib)")
_NODE = re.compile(
    r'^"(?P<id>0x[0-9a-fA-F]+)" \[label="(?P<label>[^"]*)"(?P<rule>, shape=ellipse)?', re.MULTILINE
)
_ARROW = re.compile(r'^"(?P<before>0x[0-9a-fA-F]+)" -> "(?P<after>0x[0-9a-fA-F]+)"', re.MULTILINE)
_KINDS = (
    ("CUDA", re.compile(r".*\.cu\.o(?:bj)?")),
    ("C", re.compile(r".*\.(?:c|S|asm)\.o(?:bj)?")),
    ("C++", re.compile(r".*\.o(?:bj)?")),
    ("link", re.compile(r".*\.(?:so|dylib|dll|pyd|a|lib|exe)|(?:.*/)?bin/[^/]+")),
    ("other", re.compile(r".*")),
)
KINDS = tuple(name for name, _ in _KINDS)


@dataclass(frozen=True)
class Span:
    """A step in the timeline.

    Attributes:
        lane: its row among the steps that ran at the same time, from 0.
    """

    step: TimedStep
    lane: int
    start: float
    end: float


@dataclass(frozen=True)
class Share:
    """The sums of several steps: of a component, or of a kind."""

    name: str
    steps: int
    seconds: float
    peak: int | None


@dataclass(frozen=True)
class Analysis:
    """The analysis of a record.

    Attributes:
        bars: the timeline, without periods of a minute or more in which nothing ran.
        breaks: the removed periods, in seconds of the timeline.
    """

    steps: tuple[TimedStep, ...]
    bars: tuple[Span, ...]
    breaks: tuple[float, ...]
    seconds: float
    components: tuple[Share, ...]
    kinds: tuple[Share, ...]
    critical: tuple[TimedStep, ...]
    sizes: tuple[tuple[str, int], ...]

    @property
    def busy(self) -> float:
        """The sum of the durations of all steps."""
        return sum(step.seconds for step in self.steps)

    @property
    def lanes(self) -> int:
        """The maximum number of steps that ran at once."""
        return 1 + max((bar.lane for bar in self.bars), default=-1)


def analyse_record(record: BuildRecord, graph: str) -> Analysis:
    steps = tuple(sorted(record.steps, key=lambda step: (step.start, step.end)))
    bars, breaks = _make_timeline(steps)
    return Analysis(
        steps=steps,
        bars=bars,
        breaks=breaks,
        seconds=max((bar.end for bar in bars), default=0.0),
        components=_sum_parts((component_of_step(step.output), step) for step in steps),
        kinds=_sum_parts((kind_of_step(step.output), step) for step in steps),
        critical=_critical_path(steps, graph),
        sizes=_library_sizes(steps, Path(record.build.folder)),
    )


def kind_of_step(output: str) -> str:
    """One of :data:`KINDS`, by the name of a step's output."""
    return next(name for name, pattern in _KINDS if pattern.fullmatch(output))


def component_of_step(output: str) -> str:
    """The CMake target that a step belongs to; else the library's or the folder's name."""
    if match := _TARGET.fullmatch(output):
        return match[1]
    path = PurePosixPath(output)
    return (
        path.name.split(".")[0].removeprefix("lib") if kind_of_step(output) == "link" else f"{path.parent}/"
    )


def _make_timeline(steps: Sequence[TimedStep]) -> tuple[tuple[Span, ...], tuple[float, ...]]:
    bars, breaks = [], []
    free: list[tuple[float, int]] = []
    cut, until = (steps[0].start, steps[0].start) if steps else (0.0, 0.0)
    for step in steps:
        if step.start - until > _SECONDS_OF_A_BREAK:
            breaks.append(until - cut)
            cut += step.start - until
        until = max(until, step.end)
        # A step may start in the millisecond in which another ends.
        if free and free[0][0] <= step.start + 0.001:
            lane = heapq.heappop(free)[1]
        else:
            lane = len(free)
        heapq.heappush(free, (step.end, lane))
        bars.append(Span(step, lane, step.start - cut, step.end - cut))
    return tuple(bars), tuple(breaks)


def _sum_parts(named: Iterable[tuple[str, TimedStep]]) -> tuple[Share, ...]:
    groups: dict[str, list[TimedStep]] = {}
    for name, step in named:
        groups.setdefault(name, []).append(step)
    parts = (
        Share(
            name,
            len(steps),
            sum(step.seconds for step in steps),
            max((step.peak for step in steps if step.peak is not None), default=None),
        )
        for name, steps in groups.items()
    )
    return tuple(sorted(parts, key=lambda part: -part.seconds))


def _critical_path(steps: Sequence[TimedStep], graph: str) -> tuple[TimedStep, ...]:
    """Find the longest chain; the graph's arrows point from a dependency to its user."""
    made = {step.output: step for step in steps}
    labels = {node["id"]: node["label"] for node in _NODE.finditer(graph) if not node["rule"]}
    needed: dict[str, set[str]] = {}
    for arrow in _ARROW.finditer(graph):
        needed.setdefault(arrow["after"], set()).add(arrow["before"])
    longest: dict[str, tuple[float, str | None]] = {}
    try:
        for node in TopologicalSorter(needed).static_order():
            before = max(needed.get(node, ()), key=lambda one: longest[one][0], default=None)
            own = made.get(labels.get(node, ""))
            total = (longest[before][0] if before else 0.0) + (own.seconds if own else 0.0)
            longest[node] = (total, before)
    except CycleError:
        return ()
    chain = []
    at: str | None = max(longest, key=lambda one: longest[one][0], default=None)
    while at is not None:
        if step := made.get(labels.get(at, "")):
            chain.append(step)
        at = longest[at][1]
    return tuple(reversed(chain))


def _library_sizes(steps: Sequence[TimedStep], folder: Path) -> tuple[tuple[str, int], ...]:
    files = ((step.output, folder / step.output) for step in steps if _LIBRARY.fullmatch(step.output))
    sizes: Mapping[str, int] = {name: file.stat().st_size for name, file in files if is_file(file)}
    return tuple(sorted(sizes.items(), key=lambda one: -one[1]))
