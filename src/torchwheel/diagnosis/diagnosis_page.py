"""A diagnosis as text for a terminal and as data for ``--json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torchwheel.diagnosis.failures import Diagnosis, Outcome, Recognised
from torchwheel.reporting.terminal import count_noun, fields_of, paint, wrap

SCHEMA_VERSION = 3
"""Incremented with every incompatible change of ``to_dict``."""

NARROWEST, WIDEST = 40, 110


def render(
    diagnosis: Diagnosis, width: int | None = 80, *, colour: bool = False, every_fix: bool = False
) -> str:
    """Render the diagnosis as text.

    Args:
        width: columns of the terminal; None for other output, in which no line of the log is cut.
        every_fix: whether to show more fixes than those that help most often.
    """
    columns = max(NARROWEST, min(80 if width is None else width, WIDEST))
    if diagnosis.outcome is Outcome.NO_LOG:
        return paint("The file is empty." if diagnosis.is_empty else "The file is no text.", "error", colour)
    cause = diagnosis.cause
    if cause is None:
        parts: list[Iterable[str]] = [_render_ending(diagnosis, columns, colour)]
    else:
        excerpt = _render_excerpt(cause, None if width is None else columns)
        parts = [
            *_render_cause(cause, excerpt, columns, colour, every_fix),
            *_render_others(diagnosis, columns),
        ]
    if diagnosis.passed_over:
        lines = count_noun(diagnosis.passed_over, "line")
        text = f"Not looked at, as thousands stand before: {lines} that could tell of a failure."
        parts.append(wrap(text, columns))
    return "\n\n".join(map("\n".join, parts))


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Convert the diagnosis to JSON-able data, which ``diagnosis.schema.json`` describes."""
    return {
        "schema": SCHEMA_VERSION,
        **fields_of(diagnosis, "outcome", "lines", "bytes", "passed_over"),
        "last_lines": [fields_of(line, "number", "text") for line in diagnosis.last_lines],
        "cause": None if diagnosis.cause is None else _recognised_dict(diagnosis.cause),
        "others": [
            {**_recognised_dict(one), "consequence": diagnosis.has_caused(one)} for one in diagnosis.others
        ],
    }


def _recognised_dict(one: Recognised) -> dict[str, Any]:
    return {
        **fields_of(one.entry, "id", "phase", "rank", "applies"),
        **fields_of(one, "links", "title", "captures", "count", "means", "change"),
        "line": one.line.number,
        "excerpt": [{"number": line.number, "text": one.facts.own_path(line.text)} for line in one.excerpt],
    }


def _render_ending(diagnosis: Diagnosis, columns: int, colour: bool) -> list[str]:
    """Render the outcome of a log without a failure: success, or the last lines."""
    lines = count_noun(diagnosis.lines, "line")
    style, text, shown = "ok", f"No failure in {lines}: it ended well.", diagnosis.last_lines[:0]
    if diagnosis.outcome is Outcome.UNKNOWN:
        style, shown = "warning", diagnosis.last_lines
        text = f"Not known here: {lines} show neither a failure nor the end of work that went well. The last lines:"
    digits = len(str(diagnosis.lines))
    return [
        *(paint(line, style, colour) for line in wrap(text, columns)),
        *(_cut_text(f"  {line.number:>{digits}} | {line.text}", columns) for line in shown),
    ]


def _render_cause(
    cause: Recognised, excerpt: Iterable[str], columns: int, colour: bool, every_fix: bool
) -> Iterator[Iterable[str]]:
    entry = cause.entry
    yield (paint(line, "error", colour) for line in wrap(f"{cause.title}  [{entry.id}]", columns))
    more = [f"  and {count_noun(cause.count - 1, 'line')} more"] if cause.count > 1 else []
    yield [*excerpt, *more]
    yield wrap(cause.means, columns)
    shown = cause.change if every_fix else cause.shown_fixes
    rest = len(cause.change) - len(shown)
    fixes = (wrap(text, columns, f"  {number}. ", "     ") for number, text in enumerate(shown, 1))
    text = f"`torchwheel diagnose --all` has {rest} more, for rarer cases."
    more = wrap(text, columns, "  ") if rest else []
    yield [paint("What to change:", "heading", colour), *(line for fix in fixes for line in fix), *more]
    if entry.applies:
        yield wrap(f"Applies to: {entry.limits}", columns)
    if cause.links:
        yield ["More:", *(f"  {link}" for link in cause.links)]


def _render_others(diagnosis: Diagnosis, columns: int) -> Iterator[list[str]]:
    for is_caused, heading in ((True, "Also in this log, because of it:"), (False, "Also in this log:")):
        group = [one for one in diagnosis.others if diagnosis.has_caused(one) is is_caused]
        texts = (f"line {one.line.number}: {one.title}  [{one.entry.id}]" for one in group)
        if group:
            yield [heading, *(line for text in texts for line in wrap(text, columns, "  ", "    "))]


def _render_excerpt(cause: Recognised, columns: int | None) -> Iterator[str]:
    """Render the lines around the cause: CMake's message is wrapped, others are cut after captured names."""
    digits = len(str(cause.excerpt[-1].number))
    for line in cause.excerpt:
        is_cause = line.number == cause.line.number
        head = f"{'>' if is_cause else ' '} {line.number:>{digits}} | "
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
            yield head + _cut_text(text.strip(), room, cause.captures.values() if is_cause else ())


def _cut_text(text: str, room: int, keep: Iterable[str] = ()) -> str:
    """Cut a text to ``room`` columns, or longer if the texts to keep need it."""
    end = max(room - 1, *(text.find(one) + len(one) for one in keep if one in text), 0)
    return text if end >= len(text) else text[:end] + "…"
