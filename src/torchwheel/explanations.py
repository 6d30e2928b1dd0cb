"""What every message means, by the id that stands behind it in [brackets].

Messages, rules of doctor and diagnoses of logs explain themselves, with an example's values in their texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.diagnosis import catalogue
from torchwheel.diagnosis.grammar import classes
from torchwheel.messages import messages
from torchwheel.preflight.rule_base import rules

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Explanation:
    """A message in general, without the values of a certain build; those are ``<placeholders>``.

    Attributes:
        id: the message's id; a rule and a diagnosis of one cause may share theirs.
        kind: ``rule``, ``diagnosis`` or ``message``.
        change: what to do, most likely first.
        more: what there is to know beyond the message itself.
        sources: links to the facts behind it.
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
    more: str = ""


@cache
def explanations() -> tuple[Explanation, ...]:
    """All explanations: rules and diagnoses in their own order, and other messages by id."""
    written = read_toml(Path(__file__).with_name("explanations.toml"))
    own = [*_rules(), *_diagnoses()]
    found = [
        replace(one, why=written[one.id].get("why", one.why), change=_change(written[one.id]) or one.change)
        if one.kind == "rule" and one.id in written
        else one
        for one in own
    ]
    explained = {one.id for one in own} - classes().keys()
    others = [
        Explanation(id, "message", text["what"], text["why"], _change(text))
        for id, text in written.items()
        if id not in explained
    ]
    return (*found, *sorted((*others, *_messages(explained)), key=lambda one: one.id))


def _messages(explained: Collection[str]) -> Iterator[Explanation]:
    for message in messages().values():
        if message.id not in explained:
            what, why, _ = message.fill(message.example)
            origin = message.example.get("origin", "")
            change = tuple(text.format_map(message.example) for text in message.fix)
            yield Explanation(
                message.id, "message", f"{origin}: {what}" if origin else what, why, change, more=message.more
            )


def _change(text: dict[str, str]) -> tuple[str, ...]:
    return (text["change"],) if "change" in text else ()


def _rules() -> Iterator[Explanation]:
    for rule in rules().values():
        texts = (rule.what, rule.why, rule.remedy)
        what, why, remedy = (_PLACEHOLDER.sub(_placeholder, text) for text in texts)
        yield Explanation(rule.id, "rule", what, why, (remedy,), (rule.source,), rule.severity.value)


def _diagnoses() -> Iterator[Explanation]:
    for entry in (*catalogue(), *classes().values()):
        what, why, *change = (
            _PLACEHOLDER.sub(lambda match: entry.otherwise.get(match[1], _placeholder(match)), text)  # noqa: B023
            for text in (entry.title, entry.means, *entry.change)
        )
        applies = ", ".join(f"{name} {limit}" for name, limit in sorted(entry.applies.items()))
        yield Explanation(
            entry.id, "diagnosis", what, why, tuple(change), entry.links, entry.phase.value, applies
        )


def _placeholder(match: re.Match[str]) -> str:
    return f"<{match[1].replace('_', ' ')}>"
