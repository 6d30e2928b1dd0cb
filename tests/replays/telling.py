"""Letting torchwheel look at an attempt: its settings, its plan, its machine, its log."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from replays.replay import FOLDER, Attempt, Said, attempts
from replays.trees import write_tree
from torchwheel.diagnosis.failures import Recognised
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.preflight.doctor import Examination, described_inputs
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.host_file import read_host_file
from torchwheel.preflight.report import Report, check_plan
from torchwheel.reporting.errors import TorchwheelError, error
from torchwheel.survey import BuildRequest


@dataclass(frozen=True)
class Telling:
    """What torchwheel says to an attempt.

    Attributes:
        said: everything, in its order: settings, plan and doctor as doctor's report has them, then the log's diagnosis.
        sentences: the same things' sentences, by id.
        passed: the ids of checks that passed.
        defines: the plan's CMake options; empty without a plan.
    """

    said: tuple[Said, ...]
    sentences: Mapping[str, str]
    passed: tuple[str, ...]
    defines: Mapping[str, str]


@cache
def telling(name: str) -> Telling:
    """What torchwheel says to an attempt of ``attempts/``. Nothing outside this folder plays a part."""
    attempt = attempts()[name]
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(attempt.tree, Path(folder).resolve() / "pytorch", _left_behind(attempt))
        plan, report = _examined(attempt, root)
    planned = {finding.id for finding in plan.findings} if plan else set()
    stage = "doctor" if plan else "settings"
    said = [
        Said("plan" if finding.id in planned else stage, finding.severity.value, finding.id)
        for finding in report.findings
    ]
    sentences = {finding.id: finding.problem.what for finding in report.findings}
    for grade, one in _diagnosed(attempt):
        said.append(Said("diagnose", grade, one.entry.id))
        sentences[one.entry.id] = one.title
    return Telling(
        said=tuple(said),
        sentences={id: text.replace(str(root), "pytorch") for id, text in sentences.items()},
        passed=report.passed,
        defines={define.name: define.value for define in plan.defines} if plan else {},
    )


def _examined(attempt: Attempt, root: Path) -> tuple[Plan | None, Report]:
    facts = _machine(attempt, root)
    request = BuildRequest(root, attempt.config, {"TORCHWHEEL_CACHE_DIR": str(root.parent / "cache")})
    try:
        inputs = described_inputs(request, facts)
    except TorchwheelError as failure:
        return None, Examination.of(map(error, failure.problems)).report
    plan = make_plan(inputs)
    return plan, check_plan(plan, facts)


def _machine(attempt: Attempt, root: Path) -> HostFacts:
    facts = read_host_file(FOLDER / "hosts" / f"{attempt.host}.toml")
    # The reader's own overlays are none of the attempt's.
    config = {"TORCHWHEEL_CONFIG_DIR": str(root.parent / "config")}
    return replace(facts, environment={**facts.environment, **attempt.environment, **config})


def _left_behind(attempt: Attempt) -> dict[str, str]:
    """CMake's cache after some attempts in one build folder: of each option the last value that was given."""
    cache: dict[str, str] = {}
    for name in attempt.after:
        given = attempts()[name].config
        cache |= {
            key.removeprefix("define."): value for key, value in given.items() if key.startswith("define.")
        }
    return cache


def _diagnosed(attempt: Attempt) -> Iterator[tuple[str, Recognised]]:
    if not attempt.log:
        return
    with (FOLDER / "logs" / attempt.log).open("rb") as stream:
        diagnosis = diagnose(stream)
    if diagnosis.cause is not None:
        yield "cause", diagnosis.cause
    yield from (("consequence", one) for one in diagnosis.others)
