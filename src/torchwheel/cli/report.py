"""``torchwheel report``: write an HTML report of a build's time and memory or as a document."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchwheel.host.ninja import NotReadable, ask_ninja, find_ninja
from torchwheel.host.this import cache_folder
from torchwheel.progress.analysis import Analysis, Part, analyse_record
from torchwheel.progress.build_record import RECORD, Record, Step, read_record, read_records
from torchwheel.progress.page import render_page
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import add_json_option, print_document, show
from torchwheel.system.files import output_file

_PAGE = "torchwheel-report.html"


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "build",
        metavar="BUILD",
        nargs="?",
        help="a wheel's name, or the folder of a build; else the latest build",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"where the page goes (default: {_PAGE}; with --json none is written)",
    )
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Write the page, or print the document."""
    path, record = _choose_record(parsed.build)
    analysis = analyse_record(record, _render_graph(record))
    written = None if parsed.json and not parsed.output else Path(parsed.output or _PAGE)
    if written is not None:
        written.parent.mkdir(parents=True, exist_ok=True)
        with output_file(written) as stream:
            stream.write(render_page(record, analysis).encode("utf-8", "backslashreplace"))
    if parsed.json:
        print_document("report", **_report_document(path, record, analysis, written))
    else:
        show(f"{written}\n{record.build.name}, {record.now}")
    return 0


def _choose_record(named: str | None) -> tuple[Path, Record]:
    """The record that is meant, and where it lies.

    Raises:
        TorchwheelError: there is none.
    """
    found = list(read_records(cache_folder(dict(os.environ))))
    if named is not None:
        for file in (Path(named), Path(named, RECORD)):
            if record := read_record(file):
                return file, record
        name = Path(named).name
        found = [one for one in found if name in (one[1].build.name, one[0].parent.name)]
    if not found:
        raise refusal(
            "no-such-build" if named is None else "no-such-build/name", origin=named or "", name=named
        )
    return found[0]


def _render_graph(record: Record) -> str:
    ninja = find_ninja(os.environ)
    with suppress(NotReadable):
        return ask_ninja(ninja, Path(record.build.folder), "graph") if ninja else ""
    return ""


def _report_document(path: Path, record: Record, analysis: Analysis, written: Path | None) -> dict[str, Any]:
    made = {step.output for step in record.made}
    return {
        "name": record.build.name,
        "state": record.now,
        "tree": record.build.tree,
        "record": str(path),
        "page": None if written is None else str(written),
        "jobs": record.build.jobs,
        "seconds": round(analysis.seconds, 3),
        "seconds_of_steps": round(analysis.busy, 3),
        "steps": [
            {
                **_step_document(bar.step),
                "made_now": bar.step.output in made,
                "lane": bar.lane,
                "start": round(bar.start, 3),
            }
            for bar in analysis.bars
        ],
        "critical_path": [_step_document(step) for step in analysis.critical],
        "components": [_part_document(part) for part in analysis.components],
        "kinds": [_part_document(part) for part in analysis.kinds],
        "libraries": [{"name": name, "size": size} for name, size in analysis.sizes],
        "memory": [{"time": when, "bytes": memory} for when, memory in record.samples],
    }


def _step_document(step: Step) -> dict[str, Any]:
    return {
        "output": step.output,
        "source": step.source,
        "seconds": round(step.seconds, 3),
        "peak_memory": step.peak,
        "cache_hit": step.hit,
    }


def _part_document(part: Part) -> dict[str, Any]:
    return {**asdict(part), "seconds": round(part.seconds, 3)}
