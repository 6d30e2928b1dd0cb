"""``torchwheel status``: how far builds are, seen from another terminal, and how the last one ended."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import chain
from pathlib import Path
from typing import Any

from torchwheel.host.this import cache_folder
from torchwheel.progress.build_record import Record, read_records
from torchwheel.reporting.terminal import (
    add_json_option,
    count_noun,
    file_size,
    format_duration,
    format_facts,
    paint,
    print_document,
    show,
    terminal_width,
    wants_colour,
)

_STYLES = {"running": "note", "done": "ok", "failed": "error"}


def populate(parser: argparse.ArgumentParser) -> None:
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Show what runs, and the latest that does not."""
    found = list(read_records(cache_folder(dict(os.environ))))
    ended = (one for one in found if one[1].now != "running")
    shown = [
        *(one for one in found if one[1].now == "running"),
        *([last] if (last := next(ended, None)) else []),
    ]
    if parsed.json:
        print_document("status", builds=[_status_document(path, record) for path, record in shown])
    elif shown:
        show("\n\n".join(_render_status(record) for _, record in shown))
    else:
        show("no builds yet")
    return 0


def _render_status(record: Record) -> str:
    now = time.time()
    return "\n".join(chain([_render_headline(record, now)], _render_lines(record, now)))


def _render_headline(record: Record, now: float) -> str:
    state = paint(record.now, _STYLES.get(record.now, "warning"), wants_colour())
    if record.now == "running":
        return f"{record.build.name}  {state} for {format_duration(now - record.started)}"
    ago = format_duration(now - record.updated, coarse=True)
    return f"{record.build.name}  {state} {ago} ago, after {format_duration(record.updated - record.started)}"


def _render_lines(record: Record, now: float) -> Iterator[str]:
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


def _describe_progress(record: Record, now: float) -> str:
    if not record.total:
        return "nothing is compiled yet"
    return record.describe_progress(now) if record.finished < record.total else "compiled; packaging"


def _status_document(path: Path, record: Record) -> dict[str, Any]:
    now = time.time()
    running = record.now == "running"
    build = record.build
    return {
        "name": build.name,
        "state": record.now,
        "tree": build.tree,
        "folder": build.folder,
        "log": build.log,
        "record": str(path),
        "jobs": build.jobs,
        "started": _format_time(record.started),
        "updated": _format_time(record.updated),
        "seconds": round(max(0.0, (now if running else record.updated) - record.started), 1),
        "finished": record.finished,
        "total": record.total,
        "seconds_left": None if record.left is None or not running else round(record.left, 1),
        "guess": running and record.guess,
        "memory": record.memory if running else None,
        "running": [
            {
                "output": step.output,
                "source": step.source,
                "seconds": round(max(0.0, now - step.start), 1),
                "memory": step.memory,
            }
            for step in (record.running if running else ())
        ],
    }


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
