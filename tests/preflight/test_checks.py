"""Every rule of a context: broken with its whole message, and fine."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.broken_contexts import PAIRS
from torchwheel._toml import read_toml
from torchwheel.preflight.registry import Passed, Violation
from torchwheel.preflight.report import answer_to, check, result_of
from torchwheel.preflight.rule_base import Scope, rules

CHECKED = [rule for rule in rules() if rule.scope in (Scope.COMBINATION, Scope.MACHINE)]
MESSAGES = read_toml(Path(__file__).with_name("messages.toml"))


def test_every_rule_has_both_scenes_and_a_message() -> None:
    ids = {rule.id for rule in CHECKED}
    assert PAIRS.keys() == ids
    assert MESSAGES.keys() == ids


@pytest.mark.parametrize("rule", CHECKED, ids=lambda rule: rule.id)
def test_broken(rule) -> None:
    context = PAIRS[rule.id].broken()
    answer = answer_to(rule, context)
    assert isinstance(answer, Violation)
    # The fingerprint is not what this is about.
    text = result_of(rule, answer).finding.render().replace(context.plan.fingerprint, "FINGERPRINT")
    assert text == MESSAGES[rule.id]


@pytest.mark.parametrize("rule", CHECKED, ids=lambda rule: rule.id)
def test_holds(rule) -> None:
    context = PAIRS[rule.id].holds()
    answer = answer_to(rule, context)
    if rule.fine:
        assert isinstance(answer, Passed)
        passed = check(context.plan, context.host, context.tree).passed
        assert passed[rule.id] == rule.fine.format_map(answer.values)
    else:
        assert not isinstance(answer, Violation)
