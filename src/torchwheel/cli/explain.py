"""``torchwheel explain``: what a rule of doctor or a diagnosis means, and what to do about it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator
from typing import Any

from torchwheel.cli.json_output import add_json_option, print_document
from torchwheel.diagnosis import Entry, catalogue, explain
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.preflight.rule_base import Rule, rules
from torchwheel.settings.spelling import nearest
from torchwheel.terminal import paragraph, table, terminal_width

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="what stands in [brackets] behind a message (default: list all)"
    )
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Explain one id, or list all of them."""
    found = _found(parsed.id) if parsed.id else _everything()
    if parsed.json:
        print_document("explain", explanations=[_document(one) for one in found])
    elif parsed.id:
        print("\n\n".join(_text(one, terminal_width()) for one in found))
    else:
        print("\n\n".join([_list("RULE", _rules()), _list("DIAGNOSIS", _diagnoses())]))
    return 0


def known_ids() -> list[str]:
    """Every id that can be explained, sorted."""
    return sorted({one.id for one in _everything()})


def _everything() -> list[Rule | Entry]:
    return [*_rules(), *_diagnoses()]


def _rules() -> Iterable[Rule]:
    return rules()


def _diagnoses() -> Iterable[Entry]:
    return catalogue()


def _found(id: str) -> list[Rule | Entry]:
    """The rule and the diagnosis of that id; of one cause there may be both.

    Raises:
        TorchwheelError: there is neither.
    """
    wanted = id.strip("[]").lower()
    found = [one for one in _everything() if one.id == wanted]
    if not found:
        meant = nearest(wanted, known_ids())
        raise TorchwheelError(
            Problem(
                id="unknown-id",
                what=f"there is no rule or diagnosis '{id}'",
                remedy=f"did you mean '{meant}'?" if meant else "`torchwheel explain` lists all of them",
            )
        )
    return found


def _list(kind: str, entries: Iterable[Rule | Entry]) -> str:
    rows = [(one.id, _readable(_title(one))) for one in entries]
    return table((kind, "WHAT IT SAYS"), rows, terminal_width())


def _title(one: Rule | Entry) -> str:
    return one.title if isinstance(one, Entry) else one.what


def _readable(text: str) -> str:
    """A text with what its placeholders stand for."""
    return _PLACEHOLDER.sub(lambda match: f"<{match[1].replace('_', ' ')}>", text)


def _text(one: Rule | Entry, width: int) -> str:
    return explain(one.id, width) if isinstance(one, Entry) else "\n".join(_rule_lines(one, width))


def _rule_lines(rule: Rule, width: int) -> Iterator[str]:
    yield paragraph(f"{_readable(rule.what)}  [{rule.id}]", width)
    yield ""
    yield f"Severity: {rule.severity.value}"
    if rule.why:
        yield paragraph(f"Why: {_readable(rule.why)}", width)
    yield paragraph(f"What to do: {_readable(rule.remedy)}", width)
    if rule.severity.value == "error":
        yield paragraph(f"To build in spite of it: -C skip-check={rule.id}", width)
    yield ""
    yield f"Source: {rule.source}"


def _document(one: Rule | Entry) -> dict[str, Any]:
    if isinstance(one, Entry):
        return {
            "id": one.id,
            "kind": "diagnosis",
            "what": one.title,
            "why": one.means,
            "remedies": list(one.change),
            "sources": list(one.links),
            "phase": one.phase.value,
        }
    return {
        "id": one.id,
        "kind": "rule",
        "what": one.what,
        "why": one.why,
        "remedies": [one.remedy],
        "sources": [one.source],
        "severity": one.severity.value,
    }
