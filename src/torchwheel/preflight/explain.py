"""One rule as text: what it means, what to do, and where the fact comes from."""

from __future__ import annotations

import re

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.preflight.rule import Rule, Scope
from torchwheel.preflight.rule_base import rules
from torchwheel.preflight.terminal import paragraph

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_SEVERITIES = {
    "error": "an error: it stops the build, unless -C skip-check={id} lets it pass",
    "warning": "a warning: the build works, but perhaps not as expected",
    "note": "a note: nothing need be done",
}
_MOMENTS = {
    Scope.COMBINATION: "by torchwheel doctor and, without a machine, by torchwheel lint",
    Scope.MACHINE: "by torchwheel doctor",
    Scope.PLAN: "whenever a plan is made",
    Scope.LINT: "by torchwheel lint",
}


def explain(id: str, columns: int = 80) -> str:
    """Explain a rule.

    Raises:
        TorchwheelError: there is no such rule; the message names the nearest one.
    """
    rule = rules().find(id)
    if rule is None:
        raise TorchwheelError(_unknown(id))
    parts = [
        paragraph(f"{_named(rule.what)}  [{rule.id}]", columns),
        paragraph(f"why: {_named(rule.why)}", columns, "", "     ") if rule.why else [],
        paragraph(f"fix: {_named(rule.remedy)}", columns, "", "     "),
        paragraph(f"It is {_SEVERITIES[rule.severity.value].format(id=rule.id)}.", columns),
        paragraph(f"It is checked {_moment(rule)}.", columns),
        [f"More: {rule.source}"],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _moment(rule: Rule) -> str:
    before = rule.quick and rule.scope is not Scope.PLAN
    return _MOMENTS[rule.scope] + (", and before every build" if before else "")


def _named(text: str) -> str:
    """Placeholders as ``<name>``."""
    return _PLACEHOLDER.sub(lambda match: f"<{match[1].replace('_', ' ')}>", text)


def _unknown(id: str) -> Problem:
    nearest = rules().nearest(id)
    return Problem(
        id="unknown-rule",
        what=f"there is no rule {id!r}",
        remedy=f"did you mean {nearest!r}?" if nearest else "torchwheel doctor prints ids in square brackets",
    )
