"""A diagnosis as text for a terminal and as data for ``--json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.diagnosis.model import Diagnosis, ErrorLine, LogLine, Recognised
from torchwheel.terminal import wrap

SCHEMA_VERSION = 1
"""Grows with every incompatible change of ``to_dict``."""

NARROWEST, WIDEST = 40, 110

_ATTACH = (
    "the whole log, compressed",
    "the described machine: torchwheel doctor --dump-host",
    "the plan: torchwheel plan --json",
    "the commit of the source tree: git rev-parse HEAD",
)


def render(diagnosis: Diagnosis, width: int = 80) -> str:
    """The diagnosis as plain text.

    Args:
        diagnosis: what was found.
        width: columns of the terminal.
    """
    columns = max(NARROWEST, min(width, WIDEST))
    if diagnosis.cause is not None:
        parts = [*_cause(diagnosis.cause, columns), *_consequences(diagnosis.consequences, columns)]
    elif diagnosis.errors:
        parts = list(_unknown(diagnosis, columns))
    else:
        parts = wrap(f"No failure found in {_lines(diagnosis.lines)}.", columns)
    return "\n".join(parts)


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as JSON-able data; ``schema()`` describes it."""
    return {
        "schema": SCHEMA_VERSION,
        "outcome": diagnosis.outcome.value,
        "lines": diagnosis.lines,
        "bytes": diagnosis.bytes,
        "cause": None if diagnosis.cause is None else _recognised_dict(diagnosis.cause),
        "consequences": [_recognised_dict(one) for one in diagnosis.consequences],
        "errors": [_error_dict(one) for one in diagnosis.errors],
    }


@cache
def schema() -> Mapping[str, Any]:
    """The JSON schema of ``to_dict``."""
    path = Path(__file__).with_name("diagnosis.schema.json")
    content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def _cause(cause: Recognised, columns: int) -> Iterator[str]:
    yield from wrap(f"{cause.title}  [{cause.entry.id}]", columns)
    yield ""
    yield from _excerpt(cause.excerpt, cause.line.number, columns)
    if cause.count > 1:
        yield f"  and {_lines(cause.count - 1)} more"
    yield ""
    yield from wrap(cause.means, columns)
    yield ""
    yield "What to change:"
    for number, text in enumerate(cause.change, 1):
        yield from wrap(text, columns, first=f"  {number}. ", later="     ")
    if cause.entry.applies:
        yield ""
        limits = ", ".join(f"{name} {limit}" for name, limit in sorted(cause.entry.applies.items()))
        yield from wrap(f"Applies to: {limits}", columns)
    yield ""
    yield "More:"
    yield from (f"  {link}" for link in cause.entry.links)


def _consequences(consequences: tuple[Recognised, ...], columns: int) -> Iterator[str]:
    if not consequences:
        return
    yield ""
    yield from wrap("Also in this log, probably because of it:", columns)
    for one in consequences:
        text = f"line {one.line.number}: {one.title}  [{one.entry.id}]"
        yield from wrap(text, columns, first="  ", later="    ")


def _unknown(diagnosis: Diagnosis, columns: int) -> Iterator[str]:
    yield from wrap(f"The failure in {_lines(diagnosis.lines)} is not in the catalogue.", columns)
    for number, error in enumerate(diagnosis.errors):
        yield ""
        yield "The first error:" if number == 0 else "Then:"
        yield from _excerpt(error.excerpt if number == 0 else (error.line,), error.line.number, columns)
    yield ""
    yield "For a report, attach:"
    yield from (f"  - {text}" for text in _ATTACH)


def _excerpt(lines: tuple[LogLine, ...], marked: int, columns: int) -> Iterator[str]:
    digits = len(str(lines[-1].number))
    for line in lines:
        head = f"{'>' if line.number == marked else ' '} {line.number:>{digits}} | "
        room = columns - len(head)
        text = line.text.strip() if len(line.text) > room else line.text
        yield (head + (text if len(text) <= room else text[: room - 1] + "…")).rstrip()


def _recognised_dict(one: Recognised) -> dict[str, Any]:
    return {
        "id": one.entry.id,
        "title": one.title,
        "phase": one.entry.phase.value,
        "rank": one.entry.rank,
        "captures": dict(one.captures),
        "line": one.line.number,
        "count": one.count,
        "excerpt": [_line_dict(line) for line in one.excerpt],
        "means": one.means,
        "change": list(one.change),
        "applies": dict(one.entry.applies),
        "links": list(one.entry.links),
    }


def _error_dict(error: ErrorLine) -> dict[str, Any]:
    return {"line": error.line.number, "excerpt": [_line_dict(line) for line in error.excerpt]}


def _line_dict(line: LogLine) -> dict[str, Any]:
    return {"number": line.number, "text": line.text}


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"
