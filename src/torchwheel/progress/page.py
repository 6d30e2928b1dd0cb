"""The report of a build as one self-contained HTML page, without scripts, fonts or pictures."""

from __future__ import annotations

import heapq
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from html import escape
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from torchwheel.progress.build_record import BuildRecord, TimedStep
from torchwheel.reporting.terminal import count_noun, file_size, format_duration
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
    name: str
    steps: int
    seconds: float
    peak: int


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
    critical: tuple[TimedStep, ...]
    sizes: tuple[tuple[str, int], ...]

    @property
    def busy(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def lanes(self) -> int:
        return 1 + max((bar.lane for bar in self.bars), default=-1)


def analyse_record(record: BuildRecord, graph: str) -> Analysis:
    steps = tuple(sorted(record.steps, key=lambda step: (step.start, step.end)))
    bars, breaks = _make_timeline(steps)
    return Analysis(
        steps=steps,
        bars=bars,
        breaks=breaks,
        seconds=max((bar.end for bar in bars), default=0.0),
        components=_sum_components(steps),
        critical=_critical_path(steps, graph),
        sizes=_library_sizes(steps, Path(record.build.folder)),
    )


def kind_of_step(output: str) -> str:
    """CUDA, C, C++, link or other, by the name of a step's output."""
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


def _sum_components(all_steps: Iterable[TimedStep]) -> tuple[Share, ...]:
    groups: dict[str, list[TimedStep]] = {}
    for step in all_steps:
        groups.setdefault(component_of_step(step.output), []).append(step)
    parts = (
        Share(name, len(steps), sum(step.seconds for step in steps), max(step.peak or 0 for step in steps))
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


_WIDTH, _LEFT, _TOP = 1130.0, 56.0, 6.0
_TALL_LANES, _TALL, _FLAT = 16, 20.0, 9.0
_CHARACTER = 5.8
_SHOWN = 25
_MOST_TICKS = 10
_TENTHS_BELOW = 10.0
_TICKS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400)
_STEP = ("Step", "Time", "Peak memory")
_CLASSES = {"CUDA": "cuda", "C++": "cpp", "C": "c", "link": "link", "other": "other"}


def render_page(record: BuildRecord, analysis: Analysis) -> str:
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    body = "\n".join(_render_body(record, analysis))
    return Template(template).substitute(title=escape(record.build.name), body=body)


def _render_body(record: BuildRecord, analysis: Analysis) -> Iterator[str]:
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.started))
    yield f"<h1>{escape(record.build.name)}</h1>"
    yield f"<p>{escape(record.now)}; begun {began}; of <code>{escape(record.build.tree)}</code></p>"
    yield from _render_tiles(record, analysis)
    if not analysis.steps:
        yield "<p>No step is recorded.</p>"
        return
    yield from _render_timeline(analysis)
    yield from _render_memory(record)
    yield from _render_tables(analysis)


def _render_tiles(record: BuildRecord, analysis: Analysis) -> Iterator[str]:
    peak = max((step for step in analysis.steps if step.peak), key=lambda step: step.peak or 0, default=None)
    part = min(1.0, analysis.busy / max(analysis.seconds * record.build.jobs, 0.001))
    busy = f"{part:.0%} of {count_noun(record.build.jobs, 'job')}"
    tiles = [
        (_format_time(analysis.seconds), "compiling and linking"),
        (_format_time(analysis.busy), f"of all steps, added up: {busy}"),
        (f"{len(record.made):,}", f"of {len(analysis.steps):,} steps were made by the latest build"),
        (_format_peak(peak.peak if peak else None), f"the most for one step: {peak.name}" if peak else ""),
        (record.cache_use, "from the compiler cache"),
    ]
    yield '<div class="tiles">'
    for value, meaning in tiles:
        if value:
            yield f'<div class="tile"><b>{escape(value)}</b><span>{escape(meaning)}</span></div>'
    yield "</div>"


def _render_timeline(analysis: Analysis) -> Iterator[str]:
    yield "<h2>Timeline</h2>"
    marks = ["One row for each step that ran at the same time."]
    marks += ["Red frames are the critical path."] if analysis.critical else []
    marks += (
        ["A dashed line is where the build was interrupted, and went on later."] if analysis.breaks else []
    )
    yield f"<p>{' '.join(marks)}</p>"
    used = {kind_of_step(step.output) for step in analysis.steps}
    entries = (
        f'<span><i class="{style}"></i>{name}</span>' for name, style in _CLASSES.items() if name in used
    )
    yield f'<div class="legend">{"".join(entries)}</div>'
    tall = _TALL if analysis.lanes <= _TALL_LANES else _FLAT
    height = _TOP + analysis.lanes * tall
    scale = _pixels_per_second(analysis.seconds)
    yield f'<div class="wide"><svg viewBox="0 0 {_WIDTH:.0f} {height + 22:.0f}" role="img" aria-label="Timeline">'
    yield from _render_axis(analysis.seconds, height)
    critical = {step.output for step in analysis.critical}
    for bar in analysis.bars:
        yield from _render_bar(bar, scale, tall, is_critical=bar.step.output in critical)
    for place in analysis.breaks:
        x = _LEFT + place * scale
        yield f'<line class="break" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height:.0f}"/>'
    yield "</svg></div>"


def _render_bar(bar: Span, scale: float, tall: float, *, is_critical: bool) -> Iterator[str]:
    step = bar.step
    x, y = _LEFT + bar.start * scale, _TOP + bar.lane * tall
    width = max(0.4, (bar.end - bar.start) * scale - 0.6)
    classes = _CLASSES[kind_of_step(step.output)] + (" critical" if is_critical else "")
    parts = [step.name, _format_time(step.seconds), _format_peak(step.peak)]
    yield (
        f'<rect class="{classes}" x="{x:.1f}" y="{y + 1:.1f}" width="{width:.1f}" height="{tall - 2:.1f}" rx="2">'
        f"<title>{escape(', '.join(filter(None, parts)))}</title></rect>"
    )
    name = PurePosixPath(step.name).name
    room = int((width - 6) / _CHARACTER)
    if tall == _TALL and room >= min(len(name), 6):
        short = name if len(name) <= room else f"{name[: room - 1]}…"
        yield f'<text class="in" x="{x + 4:.1f}" y="{y + 13.5:.1f}">{escape(short)}</text>'


def _render_axis(seconds: float, height: float) -> Iterator[str]:
    """Render vertical lines at round times, with labels below."""
    days = math.ceil(seconds / _TICKS[-1] / _MOST_TICKS)
    every = next((tick for tick in _TICKS if seconds / tick <= _MOST_TICKS), days * _TICKS[-1])
    for number in range(int(seconds / every) + 1):
        x = _LEFT + number * every * _pixels_per_second(seconds)
        said = format_duration(number * every, coarse=True) if number else "0"
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height:.0f}"/>'
        yield f'<text x="{x:.1f}" y="{height + 15:.0f}" text-anchor="middle">{said}</text>'


def _pixels_per_second(seconds: float) -> float:
    return (_WIDTH - _LEFT - 24) / max(seconds, 0.001)


def _render_memory(record: BuildRecord) -> Iterator[str]:
    samples = record.samples
    if len(samples) < 2:
        return
    began, height, most = samples[0][0], 120.0, max(1, *(memory for _, memory in samples))
    scale, seconds = _pixels_per_second(samples[-1][0] - began), samples[-1][0] - began
    points = " ".join(
        f"{_LEFT + (when - began) * scale:.1f},{_TOP + height - memory / most * (height - 8):.1f}"
        for when, memory in samples
    )
    yield "<h2>Memory</h2>"
    yield f"<p>All programs of the latest build together; at most {file_size(most)}.</p>"
    yield f'<div class="wide"><svg viewBox="0 0 {_WIDTH:.0f} {height + 28:.0f}" role="img" aria-label="Memory">'
    yield from _render_axis(seconds, _TOP + height)
    yield f'<text x="{_LEFT - 6:.0f}" y="{_TOP + 12:.0f}" text-anchor="end">{file_size(most)}</text>'
    end = _LEFT + seconds * scale
    yield (
        f'<polygon class="area" points="{_LEFT:.0f},{_TOP + height:.0f} {points} {end:.1f},{_TOP + height:.0f}"/>'
        "</svg></div>"
    )


def _render_tables(analysis: Analysis) -> Iterator[str]:
    total = sum(step.seconds for step in analysis.critical)
    yield from _render_table(
        "Critical path",
        "Each of these steps needs the one before it: with any number of cores the build takes "
        f"{_format_time(total)} at least. Shortening these steps shortens the build."
        if analysis.critical
        else "Not known: ninja could not be asked for the graph of the build's folder.",
        _STEP,
        map(_step_row, analysis.critical),
    )
    slowest = sorted(analysis.steps, key=lambda step: -step.seconds)[:_SHOWN]
    part = sum(step.seconds for step in slowest) / max(analysis.busy, 0.001)
    yield from _render_table(
        "Slowest steps",
        f"{count_noun(len(slowest), 'step')} of {len(analysis.steps):,}, and {part:.0%} of the time.",
        _STEP,
        map(_step_row, slowest),
    )
    components = (
        (one.name, f"{one.steps:,}", _format_time(one.seconds), _format_peak(one.peak), one.seconds, "cpp")
        for one in analysis.components[:_SHOWN]
    )
    heads = ("Component", "Steps", "Time", "Peak memory")
    yield from _render_table(
        "Time by component", "By target of CMake's, all steps added up.", heads, components
    )
    hungriest = sorted((step for step in analysis.steps if step.peak), key=lambda step: -(step.peak or 0))
    if hungriest:
        rows = ((*_step_row(step)[:3], step.peak or 0, _step_row(step)[4]) for step in hungriest[:_SHOWN])
        text = "The peak of all programs of a step, as it was seen twice a second."
        yield from _render_table("Most memory", text, _STEP, rows)
    if analysis.sizes:
        sizes = ((name, file_size(size), size, "link") for name, size in analysis.sizes[:_SHOWN])
        text = "As they lie in the build's folder."
        yield from _render_table("Size of the libraries", text, ("Library", "Size"), sizes)


def _step_row(step: TimedStep) -> tuple[str, str, str, float, str]:
    kind = _CLASSES[kind_of_step(step.output)]
    return step.name, _format_time(step.seconds), _format_peak(step.peak), step.seconds, kind


def _render_table(
    title: str, text: str, heads: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> Iterator[str]:
    """Render a section with a table; a row has its cells, the amount that its bar shows, and the bar's class."""
    yield f"<h2>{title}</h2>"
    yield f"<p>{text}</p>"
    lines = list(rows)
    if not lines:
        return
    most = max(line[-2] for line in lines)
    cells = "".join(f'<th class="n">{head}</th>' for head in heads[1:])
    yield f'<div class="wide"><table><tr><th>{heads[0]}</th>{cells}<th></th></tr>'
    for name, *values, amount, style in lines:
        cells = "".join(f'<td class="n">{escape(value)}</td>' for value in values)
        width = f"{100 * amount / most if most else 0:.1f}%"
        bar = f'<td class="bar"><div class="{style}" style="width: {width}"></div></td>'
        yield f'<tr><td class="name"><code>{escape(name)}</code></td>{cells}{bar}</tr>'
    yield "</table></div>"


def _format_peak(peak: int | None) -> str:
    return file_size(peak) if peak else ""


def _format_time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _TENTHS_BELOW else format_duration(seconds)
