"""``torchwheel status``: how far builds are, how the last one ended, and a page of where its time went."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any

from torchwheel.cli.answer import Answer
from torchwheel.host.this import cache_folder
from torchwheel.progress.build_record import RECORD, BuildRecord, read_build_record, read_build_records
from torchwheel.progress.page import render_page
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import (
    count_noun,
    fields_of,
    file_size,
    format_duration,
    format_facts,
    paint,
    terminal_width,
    wants_colour,
)
from torchwheel.system.files import output_file

_STYLES = {"running": "note", "done": "ok", "failed": "error"}


_PAGE = "torchwheel-report.html"


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
    if parsed.report:
        _write_report(shown[0][1], parsed.report)
    document = {"builds": [_status_document(path, record) for path, record in shown]}
    if parsed.report:
        return Answer(document, lambda: f"{parsed.report}\n{shown[0][1].build.name}, {shown[0][1].now}")
    return Answer(
        document,
        lambda: "\n\n".join(_render_status(one) for _, one in shown) or "no builds yet",
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


def _write_report(record: BuildRecord, page: Path) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    with output_file(page) as stream:
        stream.write(render_page(record).encode("utf-8", "backslashreplace"))


def _render_status(record: BuildRecord) -> str:
    now = time.time()
    return "\n".join(chain([_render_headline(record, now)], _render_lines(record, now)))


def _render_headline(record: BuildRecord, now: float) -> str:
    state = paint(record.now, _STYLES.get(record.now, "warning"), wants_colour())
    if record.now == "running":
        return f"{record.build.name}  {state} for {format_duration(now - record.started)}"
    ago = format_duration(now - record.updated, coarse=True)
    return f"{record.build.name}  {state} {ago} ago, after {format_duration(record.updated - record.started)}"


def _render_lines(record: BuildRecord, now: float) -> Iterator[str]:
    running = record.now == "running"
    rows = [
        ("progress", _describe_progress(record, now) if running else ""),
        ("made", "" if running else count_noun(len(record.made), "step")),
        ("of", record.build.tree),
        ("log", record.build.log),
    ]
    yield format_facts(rows, terminal_width(), ("of", "log"))
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
        "started": _format_time(record.started),
        "updated": _format_time(record.updated),
        "seconds": round(max(0.0, (now if running else record.updated) - record.started), 1),
        "seconds_left": None if record.left is None or not running else round(record.left, 1),
        "guess": running and record.guess,
        "memory": record.memory if running else None,
        "running": [
            {
                **fields_of(step, "output", "source", "memory"),
                "seconds": round(max(0.0, now - step.start), 1),
            }
            for step in (record.running if running else ())
        ],
    }


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
