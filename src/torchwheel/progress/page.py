"""The HTML report of a build: its slowest steps, the time by component, and the steps that took the most memory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import Path, PurePosixPath
from string import Template

from torchwheel.progress.build_record import BuildRecord, TimedStep
from torchwheel.reporting.terminal import count_noun, file_size, format_duration

_TARGET = re.compile(r"(?:.*/)?CMakeFiles/([^/]+)\.dir/.*")
_LINKED = re.compile(r".*\.(?:so|dylib|dll|pyd|a|lib|exe)|(?:.*/)?bin/[^/]+")
_SHOWN = 25
_TENTHS_BELOW = 10.0


def render_page(record: BuildRecord) -> str:
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return Template(template).substitute(
        title=escape(record.build.name), body="\n".join(_render_body(record))
    )


def component_of_step(output: str) -> str:
    """The CMake target that a step belongs to; else the library's or the folder's name."""
    if match := _TARGET.fullmatch(output):
        return match[1]
    path = PurePosixPath(output)
    return path.name.split(".")[0].removeprefix("lib") if _LINKED.fullmatch(output) else f"{path.parent}/"


def seconds_of_steps(steps: Iterable[TimedStep]) -> float:
    """The seconds in which at least one step ran, without the time between an interrupted build and the next."""
    total, until = 0.0, float("-inf")
    for step in sorted(steps, key=lambda one: one.start):
        total += max(0.0, step.end - max(step.start, until))
        until = max(until, step.end)
    return total


def _render_body(record: BuildRecord) -> Iterator[str]:
    steps, jobs = record.steps, record.build.jobs
    began = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.started))
    yield f"<h1>{escape(record.build.name)}</h1>"
    yield f"<p>{escape(record.now)}; begun {began}; of <code>{escape(record.build.tree)}</code></p>"
    if not steps:
        yield "<p>No step is recorded.</p>"
        return
    busy, seconds = sum(step.seconds for step in steps), seconds_of_steps(steps)
    share = min(1.0, busy / max(seconds * jobs, 0.001))
    cached = f"; {record.cache_use} from the compiler cache" if record.cache_use else ""
    yield (
        f"<p>{_format_time(seconds)} of compiling and linking; {_format_time(busy)} for all steps added up, "
        f"{share:.0%} of {count_noun(jobs, 'job')}. The latest build ran {len(record.made):,} of {len(steps):,} steps"
        f"{cached}.</p>"
    )
    yield from _render_table("Slowest steps", "Step", map(_cells, _largest(steps, lambda one: one.seconds)))
    groups: dict[str, list[TimedStep]] = {}
    for step in steps:
        groups.setdefault(component_of_step(step.output), []).append(step)
    components = (
        (
            f"{name} ({count_noun(len(own), 'step')})",
            sum(step.seconds for step in own),
            max(step.peak or 0 for step in own),
        )
        for name, own in groups.items()
    )
    ordered = sorted(components, key=lambda one: -one[1])[:_SHOWN]
    yield from _render_table("Time by component", "CMake target", ordered)
    largest = _largest([step for step in steps if step.peak], lambda one: one.peak or 0)
    yield from _render_table("Most memory", "Step", map(_cells, largest))


def _largest(steps: Sequence[TimedStep], size: Callable[[TimedStep], float]) -> list[TimedStep]:
    return sorted(steps, key=size, reverse=True)[:_SHOWN]


def _cells(step: TimedStep) -> tuple[str, float, int]:
    return step.name, step.seconds, step.peak or 0


def _render_table(title: str, head: str, rows: Iterable[tuple[str, float, int]]) -> Iterator[str]:
    yield f"<h2>{title}</h2>\n<table><tr><th>{head}</th><th>Time</th><th>Peak memory</th></tr>"
    for name, seconds, peak in rows:
        memory = file_size(peak) if peak else ""
        yield f"<tr><td><code>{escape(name)}</code></td><td>{_format_time(seconds)}</td><td>{memory}</td></tr>"
    yield "</table>"


def _format_time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _TENTHS_BELOW else format_duration(seconds)
