"""``torchwheel explain``: what a message means, by its id, and what to do about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.diagnosis.facts import Facts
from torchwheel.diagnosis.failures import Entry, fill_captures, read_catalogue
from torchwheel.diagnosis.fixes import join_met, meet_conditions
from torchwheel.diagnosis.grammar import read_classes
from torchwheel.preflight.registry import Rule, fixing_order, read_rules
from torchwheel.reporting.errors import find_nearest, refusal
from torchwheel.reporting.messages import Message, read_messages
from torchwheel.reporting.terminal import (
    Answer,
    fields_of,
    format_table,
    paint,
    terminal_width,
    wants_colour,
    wrap,
)
from torchwheel.system.toml import shipped_toml


@dataclass(frozen=True)
class Explanation:
    """A message, with the values of an example.

    Attributes:
        change: the fixes, most likely first.
        saves: what a rule saves; empty for others.
        level: the severity of a rule, or the phase of a diagnosis.
        applies: the releases or platform that a diagnosis is limited to.
    """

    id: str
    kind: str
    what: str
    why: str
    change: tuple[str, ...]
    sources: tuple[str, ...] = ()
    level: str = ""
    applies: str = ""
    saves: str = ""
    more: str = ""


@cache
def read_explanations() -> tuple[Explanation, ...]:
    rules, messages = read_rules(), read_messages().values()
    listed = {*rules, *(entry.id for entry in read_catalogue())}
    of_rules = sorted((one for one in messages if one.id in rules), key=lambda one: fixing_order(one.id))
    others = sorted((one for one in messages if one.id not in listed), key=lambda one: one.id)
    return (
        *(_of_message(one, rules[one.id]) for one in of_rules),
        *(one for entry in (*read_catalogue(), *read_classes().values()) for one in _of_entry(entry)),
        *map(_of_message, others),
    )


def _of_message(message: Message, rule: Rule | None = None) -> Explanation:
    what, why, *change = message.texts(message.example)
    origin = message.example.get("origin")
    return Explanation(
        id=message.id,
        kind="rule" if rule else "message",
        what=f"{origin}: {what}" if origin else what,
        why=why,
        change=tuple(change),
        more=message.more,
        sources=(rule.source,) if rule else (),
        level=rule.severity.value if rule else "",
        saves=rule.saves if rule else "",
    )


def _of_entry(entry: Entry) -> Iterator[Explanation]:
    # The captures of each diagnosis in a log of tests/support/diagnosis/logs; of a class of several kinds, one of each.
    kinds = shipped_toml(Path(__file__).parents[1] / "diagnosis" / "examples.toml").get(entry.id, {})
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        values = Facts().fill({**entry.otherwise, **kind})
        texts = (
            entry.title_of(values),
            join_met(entry.means, values),
            *meet_conditions(entry.change, values),
        )
        what, why, *change = (fill_captures(fill_captures(text, values), values) for text in texts)
        links = tuple(meet_conditions(entry.links, values))
        yield Explanation(
            entry.id, "diagnosis", what, why, tuple(change), links, entry.phase.value, entry.limits
        )


_LEVEL = {"rule": "severity", "diagnosis": "phase"}


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="the ID in [brackets] after a message (default: list all)"
    )


def run(parsed: argparse.Namespace) -> Answer:
    found = _find_explanations(parsed.id) if parsed.id else list(read_explanations())
    document = {"explanations": [_explanation_document(one) for one in found]}
    if parsed.id:
        return Answer(document, lambda: "\n".join(_render_explanation(found)))
    return Answer(document, lambda: _render_list(found))


def _render_list(found: Iterable[Explanation]) -> str:
    kinds: dict[str, dict[str, str]] = {}
    for one in found:
        kinds.setdefault(one.kind, {}).setdefault(one.id, one.what)
    return "\n\n".join(
        format_table((kind.upper(), "WHAT IT SAYS"), rows.items()) for kind, rows in kinds.items()
    )


def known_ids() -> list[str]:
    return sorted({one.id for one in read_explanations()})


def _find_explanations(id: str) -> list[Explanation]:
    wanted = id.strip("[]").lower()
    # Of one cause there may be a rule and a diagnosis.
    found = [one for one in read_explanations() if one.id == wanted]
    if not found:
        meant = find_nearest(wanted, known_ids())
        raise refusal("unknown-id/near" if meant else "unknown-id", name=id, meant=meant)
    return found


def _render_explanation(found: list[Explanation]) -> Iterator[str]:
    """One section for all messages of an id: each with its reason, then what they share."""
    width, colour = terminal_width(), wants_colour()
    texts = [text for one in found for text in (f"{one.what}  [{one.id}]", one.why)]
    for number, text in enumerate(filter(None, dict.fromkeys([*texts, *(one.more for one in found)]))):
        yield from [""] * (number > 0)
        yield from wrap(text, width)
    changes = tuple(dict.fromkeys(text for one in found for text in one.change))
    is_error = "error" in (one.level for one in found)
    if changes or is_error:
        yield ""
        yield paint("What to change:", "heading", colour)
    for number, text in enumerate(changes, 1):
        marker = f"  {number}. " if len(changes) > 1 else "  "
        first, *rest = text.splitlines()
        yield from wrap(first, width, marker, "     ")
        yield from (f"     {line}" for line in rest)
    if is_error:
        yield from wrap(f"To build in spite of it: -C skip-check={found[0].id}", width, "  ")
    if saves := next((one.saves for one in found if one.saves), ""):
        yield ""
        yield f"Found before the build, which saves {saves}."
    for applies in dict.fromkeys(one.applies for one in found if one.applies):
        yield ""
        yield from wrap(f"Applies to: {applies}", width)
    if sources := dict.fromkeys(source for one in found for source in one.sources):
        yield ""
        yield paint("More:", "heading", colour)
        yield from (f"  {source}" for source in sources)


def _explanation_document(one: Explanation) -> dict[str, Any]:
    document = {
        **fields_of(one, "id", "kind", "what", "why", "more", "sources"),
        "remedies": list(one.change),
    }
    return {**document, _LEVEL[one.kind]: one.level} if one.kind in _LEVEL else document
