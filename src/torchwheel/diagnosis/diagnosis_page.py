"""A diagnosis as text for a terminal and as data for ``--json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.diagnosis.facts import Facts
from torchwheel.diagnosis.failures import Diagnosis, LogLine, Outcome, Recognised
from torchwheel.reporting.terminal import paint, wrap

SCHEMA_VERSION = 3
"""Incremented with every incompatible change of ``to_dict``."""

NARROWEST, WIDEST = 40, 110

_ATTACH = (
    "the whole log, compressed",
    "the described machine: torchwheel doctor --dump-host",
    "the plan: torchwheel plan --json",
    "the commit of the source tree: git rev-parse HEAD",
)


def render(diagnosis: Diagnosis, width: int | None = 80, *, colour: bool = False) -> str:
    """Render the diagnosis as text.

    Args:
        width: columns of the terminal; None for other output, in which no line of the log is cut.
    """
    columns = max(NARROWEST, min(80 if width is None else width, WIDEST))
    if diagnosis.outcome is Outcome.NO_LOG:
        return paint("The file is empty." if diagnosis.is_empty else "The file is no text.", "error", colour)
    if diagnosis.cause is None:
        return "\n".join([*_render_ending(diagnosis, columns, colour), *_passed_over(diagnosis, columns)])
    room = None if width is None else columns
    parts = [*_render_cause(diagnosis.cause, columns, room, colour), *_render_others(diagnosis, columns)]
    parts += _passed_over(diagnosis, columns)
    if not diagnosis.cause.entry.rank:
        attach = _ATTACH if diagnosis.cause.facts.ours else _ATTACH[:1]
        parts += ["", "For a report, attach:", *(f"  - {text}" for text in attach)]
    return "\n".join(parts)


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Convert the diagnosis to JSON-able data; ``schema()`` describes it."""
    return {
        "schema": SCHEMA_VERSION,
        "outcome": diagnosis.outcome.value,
        "lines": diagnosis.lines,
        "bytes": diagnosis.bytes,
        "passed_over": diagnosis.passed_over,
        "last_lines": [_line_dict(line) for line in diagnosis.last_lines],
        "cause": None if diagnosis.cause is None else _recognised_dict(diagnosis.cause),
        "others": [
            {**_recognised_dict(one), "consequence": diagnosis.has_caused(one)} for one in diagnosis.others
        ],
    }


@cache
def read_schema() -> Mapping[str, Any]:
    """The JSON schema of ``to_dict``."""
    path = Path(__file__).with_name("diagnosis.schema.json")
    content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _render_ending(diagnosis: Diagnosis, columns: int, colour: bool) -> Iterator[str]:
    """Render the outcome of a log without a failure: success, or the last lines."""
    lines = _count_lines(diagnosis.lines)
    if diagnosis.outcome is Outcome.SUCCEEDED:
        yield from (
            paint(line, "ok", colour) for line in wrap(f"No failure in {lines}: it ended well.", columns)
        )
        return
    text = (
        f"Not known here: {lines} show neither a failure nor the end of work that went well. The last lines:"
    )
    yield from (paint(line, "warning", colour) for line in wrap(text, columns))
    digits = len(str(diagnosis.lines))
    for line in diagnosis.last_lines:
        yield _cut_text(f"  {line.number:>{digits}} | {line.text}", columns, ())


def _line_dict(line: LogLine, facts: Facts | None = None) -> dict[str, Any]:
    return {"number": line.number, "text": facts.own_path(line.text) if facts else line.text}


def _render_cause(cause: Recognised, columns: int, room: int | None, colour: bool) -> Iterator[str]:
    yield from (paint(line, "error", colour) for line in wrap(f"{cause.title}  [{cause.entry.id}]", columns))
    yield ""
    yield from _render_excerpt(cause, room)
    if cause.count > 1:
        yield f"  and {_count_lines(cause.count - 1)} more"
    yield ""
    yield from wrap(cause.means, columns)
    yield ""
    yield paint("What to change:", "heading", colour)
    for number, text in enumerate(cause.change, 1):
        yield from wrap(text, columns, first=f"  {number}. ", later="     ")
    if cause.entry.applies:
        yield ""
        limits = ", ".join(f"{name} {limit}" for name, limit in sorted(cause.entry.applies.items()))
        yield from wrap(f"Applies to: {limits}", columns)
    if cause.entry.links:
        yield ""
        yield "More:"
        yield from (f"  {link}" for link in cause.entry.links)


def _render_others(diagnosis: Diagnosis, columns: int) -> Iterator[str]:
    because = [one for one in diagnosis.others if diagnosis.has_caused(one)]
    beside = [one for one in diagnosis.others if not diagnosis.has_caused(one)]
    for heading, group in (("Also in this log, because of it:", because), ("Also in this log:", beside)):
        if group:
            yield ""
            yield heading
        for one in group:
            text = f"line {one.line.number}: {one.title}  [{one.entry.id}]"
            yield from wrap(text, columns, first="  ", later="    ")


def _passed_over(diagnosis: Diagnosis, columns: int) -> Iterator[str]:
    if diagnosis.passed_over:
        yield ""
        yield from wrap(
            f"Not looked at, as thousands stand before: {_count_lines(diagnosis.passed_over)}"
            " that could tell of a failure.",
            columns,
        )


def _render_excerpt(cause: Recognised, columns: int | None) -> Iterator[str]:
    """Render the lines around the cause: CMake's message is wrapped, others are cut after captured names."""
    lines, marked = cause.excerpt, cause.line.number
    digits = len(str(lines[-1].number))
    for line in lines:
        head = f"{'>' if line.number == marked else ' '} {line.number:>{digits}} | "
        # An edit of the stage's copy is overwritten by the next build.
        text, room = cause.facts.own_path(line.text), None if columns is None else columns - len(head)
        if room is None or len(text) <= room:
            yield (head + text).rstrip()
        elif cause.is_of_message(line):
            indent = " " * (len(text) - len(text.lstrip()))
            first, *rest = wrap(text.strip(), room, indent)
            yield head + first
            yield from (f"{'|':>{len(head) - 1}} {more}" for more in rest)
        else:
            keep = tuple(cause.captures.values()) if line.number == marked else ()
            yield (head + _cut_text(text.strip(), room, keep)).rstrip()


def _cut_text(text: str, room: int, keep: tuple[str, ...]) -> str:
    """Cut a text to ``room`` columns, or longer if the texts to keep need it."""
    end = max((text.find(one) + len(one) for one in keep if one in text), default=0)
    end = max(end, room - 1)
    return text if end >= len(text) else text[:end] + "…"


def _recognised_dict(one: Recognised) -> dict[str, Any]:
    return {
        "id": one.entry.id,
        "title": one.title,
        "phase": one.entry.phase.value,
        "rank": one.entry.rank,
        "captures": dict(one.captures),
        "line": one.line.number,
        "count": one.count,
        "excerpt": [_line_dict(line, one.facts) for line in one.excerpt],
        "means": one.means,
        "change": list(one.change),
        "applies": dict(one.entry.applies),
        "links": list(one.entry.links),
    }


def _count_lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"
