"""The rules as data: complete, in one form, each with a check, and none for what the plan no longer says."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

import torchwheel.plan
import torchwheel.settings.validate
import torchwheel.toolkit.needs
import torchwheel.toolkit.select
from preflight.canonical_rules import canonical
from torchwheel._toml import read_toml
from torchwheel.preflight.checks import COMBINATION_CHECKS, CONTEXT_CHECKS
from torchwheel.preflight.rule_base import FOLDER, SUBJECTS, Scope, position, rules

PLAN_SOURCES = (
    *Path(torchwheel.plan.__path__[0]).glob("*.py"),
    Path(torchwheel.settings.validate.__file__),
    Path(torchwheel.toolkit.needs.__file__),
    Path(torchwheel.toolkit.select.__file__),
)


# What is found only of the toolkit of extensions.
FOR_EXTENSIONS = {"cuda-mismatch", "no-packages-for-platform", "toolkit-lacks-headers"}
# What stops `plan --shell`, and no build.
FOR_SHELLS = {"unquotable-value", "unusable-variable-name"}


def of_scope(scope: Scope) -> set[str]:
    return {rule.id for rule in rules().values() if rule.scope is scope}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_file_is_in_canonical_form(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == canonical(read_toml(path)["rule"])


def test_there_is_a_file_for_every_subject() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(SUBJECTS)


def test_every_rule_has_a_check_and_every_check_a_rule() -> None:
    assert CONTEXT_CHECKS.keys() == of_scope(Scope.MACHINE)
    assert COMBINATION_CHECKS.keys() == of_scope(Scope.COMBINATION)


def test_everything_that_settings_and_plan_find_has_a_rule() -> None:
    found = {
        id
        for path in PLAN_SOURCES
        for id in re.findall(r'\bid="([a-z-]+)"', path.read_text(encoding="utf-8"))
    }
    assert found - {rule.id for rule in rules().values()} == FOR_EXTENSIONS | FOR_SHELLS
    assert of_scope(Scope.PLAN) - found == set()


def test_every_id_is_there_once() -> None:
    ids = [row["id"] for path in FOLDER.glob("*.toml") for row in read_toml(path)["rule"]]
    assert len(ids) == len(set(ids)) == len(list(rules()))


@pytest.mark.parametrize("rule", list(rules().values()), ids=lambda rule: rule.id)
def test_placeholders_are_names_that_a_check_can_fill(rule) -> None:
    for text in (rule.what, rule.why, rule.remedy, rule.fine):
        assert all(name is None or name.isidentifier() for _, name, _, _ in Formatter().parse(text)), text


def test_order_of_fixing() -> None:
    assert position("need-not-build") == 0
    assert position("unheard-of") == len(list(rules()))
