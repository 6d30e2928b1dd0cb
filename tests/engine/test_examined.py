"""What a successful build remembers of its preflight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from torchwheel.engine.examined import Examined, remembered_findings
from torchwheel.errors import Problem
from torchwheel.findings import Finding, note, warning
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.survey import Request, survey

MINITORCH = Path(__file__).resolve().parents[2] / "examples" / "minitorch"
FOUND = (
    warning(Problem("no-cudnn", "there is no cuDNN", "install it", "CMake goes on without", "CUDA")),
    note(Problem("need-not-build", "an official build runs", "pip install torch")),
)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin"}
    made = make_plan(survey(Request(MINITORCH, {"target": "cpu"}, environment)))
    made.folders.root.mkdir(parents=True)
    return made


def test_nothing_is_remembered_before_a_success(plan: Plan) -> None:
    assert remembered_findings(plan) is None


@pytest.mark.parametrize("found", [(), FOUND], ids=["nothing found", "something found"])
def test_the_same_plan_finds_what_was_found(plan: Plan, found: tuple[Finding, ...]) -> None:
    examined = Examined(plan, found)
    examined.remember()
    assert remembered_findings(plan) == found
    assert examined.plan.findings == (*plan.findings, *found)


def test_another_plan_in_the_same_folder_is_examined_anew(plan: Plan) -> None:
    Examined(plan, FOUND).remember()
    assert remembered_findings(replace(plan, jobs=replace(plan.jobs, max_jobs=99))) is None


def test_a_damaged_record_is_no_record(plan: Plan) -> None:
    Examined(plan, FOUND).remember()
    (plan.folders.root / "preflight.json").write_text('{"plan": 1', encoding="utf-8")
    assert remembered_findings(plan) is None
