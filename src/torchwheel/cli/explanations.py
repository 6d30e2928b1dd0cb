"""Explanations of every message, by its id in [brackets].

They are the texts of messages, doctor's rules and diagnoses of logs, with an example's values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.diagnosis import read_catalogue
from torchwheel.diagnosis.failures import Entry, fill_captures
from torchwheel.diagnosis.grammar import read_classes
from torchwheel.preflight.rule_base import Rule, fixing_order, read_rules
from torchwheel.reporting.messages import Message, read_messages
from torchwheel.system.toml import shipped_toml

_EXAMPLES = Path(__file__).parents[1] / "diagnosis" / "examples.toml"


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
    """Return all explanations: rules and diagnoses in their own order, and other messages by id."""
    listed = {*read_rules(), *(entry.id for entry in read_catalogue())}
    others = (message for message in read_messages().values() if message.id not in listed)
    return (
        *(
            _of_message(message, read_rules()[message.id])
            for message in sorted(_of_rules(), key=_fixing_position)
        ),
        *(_of_entry(entry) for entry in (*read_catalogue(), *read_classes().values())),
        *(_of_message(message) for message in sorted(others, key=lambda message: message.id)),
    )


def _of_rules() -> Iterator[Message]:
    return (message for message in read_messages().values() if message.id in read_rules())


def _fixing_position(message: Message) -> int:
    return fixing_order(message.id)


def _of_message(message: Message, rule: Rule | None = None) -> Explanation:
    what, why, *change = (
        text.format_map(message.example) for text in (message.what, message.why, *message.fix)
    )
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


def _of_entry(entry: Entry) -> Explanation:
    values = {**entry.otherwise, **_diagnosed_examples().get(entry.id, {})}
    what, why, *change = (
        fill_captures(fill_captures(text, values), values)
        for text in (entry.title, entry.means, *entry.change)
    )
    applies = ", ".join(f"{name} {limit}" for name, limit in sorted(entry.applies.items()))
    return Explanation(
        entry.id, "diagnosis", what, why, tuple(change), entry.links, entry.phase.value, applies
    )


def _diagnosed_examples() -> Mapping[str, Mapping[str, str]]:
    """Read the captures of each diagnosis in a log of ``tests/support/diagnosis/logs``, by its id."""
    return shipped_toml(_EXAMPLES)
