"""The rules as data: complete, in one form, each with a check, and none for what the plan no longer says."""

from __future__ import annotations

from test_messages import raise_sites
from torchwheel.preflight.registry import FOLDER, SUBJECTS, fixing_order, read_rules
from torchwheel.preflight.report import CHECKS
from torchwheel.system.toml import read_toml

# Where reading settings and making a plan finds something.
PLAN_SOURCES = ("plan/", "settings/resolve.py", "toolkit/needs.py", "toolkit/select.py")
# What is found only of the toolkit of extensions, and what two settings alone contradict.
WITHOUT_RULE = {
    "cuda-from-contradicts-path", "cuda-mismatch", "no-packages-for-platform", "targets-disagree",
}  # fmt: skip


def test_there_is_a_file_for_every_subject() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(SUBJECTS)


def test_every_rule_has_a_check_and_every_check_a_rule() -> None:
    assert CHECKS.keys() == {rule.id for rule in read_rules().values() if rule.saves}


def test_everything_that_settings_and_plan_find_has_a_rule() -> None:
    found = {
        key.partition("/")[0]
        for place, _, keys in raise_sites()
        for key in keys
        if place.startswith(PLAN_SOURCES)
    }
    assert found - {rule.id for rule in read_rules().values()} == WITHOUT_RULE
    assert read_rules().keys() - CHECKS.keys() - found == set()


def test_every_id_is_there_once() -> None:
    ids = [row["id"] for path in FOLDER.glob("*.toml") for row in read_toml(path)["rule"]]
    assert len(ids) == len(set(ids)) == len(list(read_rules()))


def test_order_of_fixing() -> None:
    assert fixing_order("need-not-build") == 0
    assert fixing_order("unheard-of") == len(list(read_rules()))
