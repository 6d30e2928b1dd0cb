"""Every rule of a context: broken with its whole message, and fine."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.broken_contexts import PAIRS, WINDOWS
from preflight.contexts import context
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


def test_windows_has_drivers_of_its_own() -> None:
    """CUDA 12 runs from 525.60.13 on Linux, and from 528.33 on Windows."""
    rule = rules().by_id["driver-too-old"]
    linux = context(facts={"driver": "527.41"})
    windows = context(**WINDOWS, facts={"driver": "527.41"})
    assert isinstance(answer_to(rule, linux), Passed)
    answer = answer_to(rule, windows)
    assert isinstance(answer, Violation)
    assert answer.nearest.startswith("528.")


def test_without_a_toolkit_there_is_no_release_to_be_unknown() -> None:
    made = context({"cuda": ">=99"})
    report = check(made.plan, made.host, made.tree)
    assert made.plan.toolkit is None
    assert report.errors
    assert report.unchecked == {}
