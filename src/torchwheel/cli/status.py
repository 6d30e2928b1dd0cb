"""``torchwheel status``: how far builds are, how the last one ended, and an HTML page of where its time went."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from html import escape
from operator import itemgetter
from pathlib import Path, PurePosixPath
from string import Template
from typing import Any

from torchwheel.host.this import cache_folder
from torchwheel.progress.build_record import (
    RECORD,
    BuildRecord,
    TimedStep,
    read_build_record,
    read_build_records,
)
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import (
    Answer,
    count_noun,
    fields_of,
    file_size,
    format_duration,
    format_facts,
    paint,
    wants_colour,
)
from torchwheel.system.files import output_file

_STYLES = {"running": "note", "done": "ok", "failed": "error"}
_PAGE = "torchwheel-report.html"
_TARGET = re.compile(r"(?:.*/)?CMakeFiles/([^/]+)\.dir/.*")
_LINKED = re.compile(r".*\.(?:so|dylib|dll|pyd|a|lib|exe)|(?:.*/)?bin/[^/]+")
_SHOWN = 25
_TENTHS_BELOW = 10.0


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "build", metavar="BUILD", nargs="?", help="show only this: a wheel's name, or the folder of a build"
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        nargs="?",
        const=_PAGE,
        type=Path,
        help=f"write an HTML report of the latest build's time and memory, or of BUILD's (default: {_PAGE})",
    )


def run(parsed: argparse.Namespace) -> Answer:
    found = list(read_build_records(cache_folder(dict(os.environ))))
    running = [one for one in found if one[1].now == "running"]
    shown = [*running, *[one for one in found if one not in running][:1]]
    if parsed.build is not None or parsed.report:
        shown = [_choose_record(parsed.build, found)]
    document = {"builds": [_status_document(path, record) for path, record in shown]}
    if parsed.report:
        record = shown[0][1]
        parsed.report.parent.mkdir(parents=True, exist_ok=True)
        with output_file(parsed.report) as stream:
            stream.write(render_page(record).encode("utf-8", "backslashreplace"))
        return Answer(document, lambda: f"{parsed.report}\n{record.build.name}, {record.now}")
    return Answer(
        document, lambda: "\n\n".join("\n".join(_render_status(one)) for _, one in shown) or "no builds yet"
    )


def _choose_record(named: str | None, found: Sequence[tuple[Path, BuildRecord]]) -> tuple[Path, BuildRecord]:
    if named is not None:
        for file in (Path(named), Path(named, RECORD)):
            if record := read_build_record(file):
                return file, record
        name = Path(named).name
        found = [one for one in found if name in (one[1].build.name, one[0].parent.name)]
    if not found:
        raise refusal(
            "no-such-build" if named is None else "no-such-build/name", origin=named or "", name=named
        )
    return found[0]


def _render_headline(record: BuildRecord, now: float) -> str:
    state = paint(record.now, _STYLES.get(record.now, "warning"), wants_colour())
    if record.now == "running":
        return f"{record.build.name}  {state} for {format_duration(now - record.started)}"
    ago = format_duration(now - record.updated, coarse=True)
    return f"{record.build.name}  {state} {ago} ago, after {format_duration(record.updated - record.started)}"


def _render_status(record: BuildRecord) -> Iterator[str]:
    now, running = time.time(), record.now == "running"
    yield _render_headline(record, now)
    rows = [
        ("progress", _describe_progress(record, now) if running else ""),
        ("made", "" if running else count_noun(len(record.made), "step")),
        ("of", record.build.tree),
        ("log", record.build.log),
    ]
    yield format_facts(rows, whole=("of", "log"))
    for step in record.running if running else ():
        yield f"{format_duration(now - step.start):>12}  {file_size(step.memory):>8}  {step.name}"


def _describe_progress(record: BuildRecord, now: float) -> str:
    if not record.total:
        return "nothing is compiled yet"
    return record.describe_progress(now) if record.finished < record.total else "compiled; packaging"


def _status_document(path: Path, record: BuildRecord) -> dict[str, Any]:
    now = time.time()
    running = record.now == "running"
    return {
        **fields_of(record.build, "name", "tree", "folder", "log", "jobs"),
        **fields_of(record, "finished", "total"),
        "state": record.now,
        "record": str(path),
        "started": _timestamp(record.started),
        "updated": _timestamp(record.updated),
        "seconds": round(max(0.0, (now if running else record.updated) - record.started), 1),
        "seconds_left": None if record.left is None or not running else round(record.left, 1),
        "guess": running and record.guess,
        "memory": record.memory if running else None,
        "running": [
            {**fields_of(step, "output", "source", "memory"), "seconds": round(max(0.0, now - step.start), 1)}
            for step in (record.running if running else ())
        ],
    }


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")


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
    rows = [(step.name, step.seconds, step.peak or 0) for step in steps]
    yield from _render_table("Slowest steps", "Step", rows, column=1)
    groups: dict[str, list[TimedStep]] = {}
    for step in steps:
        groups.setdefault(component_of_step(step.output), []).append(step)
    components = [
        (
            f"{name} ({count_noun(len(own), 'step')})",
            sum(one.seconds for one in own),
            max(one.peak or 0 for one in own),
        )
        for name, own in groups.items()
    ]
    yield from _render_table("Time by component", "CMake target", components, column=1)
    yield from _render_table("Most memory", "Step", [row for row in rows if row[2]], column=2)


def _render_table(
    title: str, head: str, rows: Iterable[tuple[str, float, int]], column: int
) -> Iterator[str]:
    """The rows with the largest values in a column."""
    yield f"<h2>{title}</h2>\n<table><tr><th>{head}</th><th>Time</th><th>Peak memory</th></tr>"
    for name, seconds, peak in sorted(rows, key=itemgetter(column), reverse=True)[:_SHOWN]:
        memory = file_size(peak) if peak else ""
        yield f"<tr><td><code>{escape(name)}</code></td><td>{_format_time(seconds)}</td><td>{memory}</td></tr>"
    yield "</table>"


def _format_time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _TENTHS_BELOW else format_duration(seconds)
