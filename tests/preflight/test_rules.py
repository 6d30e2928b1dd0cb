"""The rules as data: complete, in one form, each with a check, and none for what the plan no longer says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import torchwheel.plan
import torchwheel.settings.validate
import torchwheel.toolkit.needs
import torchwheel.toolkit.select
from preflight.canonical_rules import canonical
from torchwheel._toml import read_toml
from torchwheel.errors import TorchwheelError
from torchwheel.preflight.checks import combination_checks, scene_checks
from torchwheel.preflight.rule import Scope
from torchwheel.preflight.rule_base import FOLDER, SUBJECTS, load_rules, rules

PLAN_SOURCES = (
    *Path(torchwheel.plan.__path__[0]).glob("*.py"),
    Path(torchwheel.settings.validate.__file__),
    Path(torchwheel.toolkit.needs.__file__),
    Path(torchwheel.toolkit.select.__file__),
)


# What is found only of the toolkit of extensions.
FOR_EXTENSIONS = {"cuda-mismatch", "toolkit-lacks-headers"}


def of_scope(scope: Scope) -> set[str]:
    return {rule.id for rule in rules() if rule.scope is scope}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_file_is_in_canonical_form(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == canonical(read_toml(path)["rule"])


def test_there_is_a_file_for_every_subject() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(SUBJECTS)


def test_every_rule_has_a_check_and_every_check_a_rule() -> None:
    assert scene_checks().keys() == of_scope(Scope.MACHINE)
    assert combination_checks().keys() == of_scope(Scope.COMBINATION)


def test_everything_that_settings_and_plan_find_has_a_rule() -> None:
    found = {
        id
        for path in PLAN_SOURCES
        for id in re.findall(r'\bid="([a-z-]+)"', path.read_text(encoding="utf-8"))
    }
    assert found - {rule.id for rule in rules()} == FOR_EXTENSIONS
    assert of_scope(Scope.PLAN) - found == set()


WRONG = """
[[rule]]
id = "No Kebab"
severity = "fatal"
scope = "world"
quick = "yes"
what = "a {brace"
remedy = ""
source = "http://example.org"
colour = "red"
"""


def test_a_wrong_rule_is_refused_with_everything_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "toolkit.toml"
    path.write_text(WRONG, encoding="utf-8")
    (tmp_path / "gossip.toml").write_text("", encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        load_rules(tmp_path)
    keys = "id, severity, scope, quick, what, why, remedy, fine, source"
    assert [problem.what for problem in caught.value.problems] == [
        "'gossip' is not one of the subjects",
        f"rule 'No Kebab': the key 'colour' is unknown; use {keys}",
        "rule 'No Kebab': 'quick' is 'yes', which is no bool with something in it",
        "rule 'No Kebab': 'remedy' is '', which is no str with something in it",
        "rule 'No Kebab': the id is not in kebab case",
        "rule 'No Kebab': the severity is not one of error, warning, note",
        "rule 'No Kebab': the scope is not one of combination, machine, plan, lint",
        "rule 'No Kebab': the source is no https link",
        "rule 'No Kebab': 'what': expected '}' before end of string",
    ]
    assert {problem.origin for problem in caught.value.problems} == {str(path), str(tmp_path / "gossip.toml")}


def test_a_rule_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    row = (
        '[[rule]]\nid = "one"\nseverity = "note"\nwhat = "a"\nremedy = "b"\nsource = "https://example.org"\n'
    )
    (tmp_path / "disk.toml").write_text(row * 2, encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        load_rules(tmp_path)
    assert [problem.what for problem in caught.value.problems] == ["rule 'one': another rule has the same id"]


def test_nearest_and_position() -> None:
    assert rules().nearest("toolkit-incomplet") == "toolkit-incomplete"
    assert rules().nearest("qqqqqq") is None
    assert rules().position("need-not-build") == 0
    assert rules().position("unheard-of") == len(list(rules()))
