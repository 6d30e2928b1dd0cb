"""What a build is said to take, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from preflight.contexts import context, toolkit
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.effort import Effort, estimate_effort
from torchwheel.progress.build_record import Build, BuildRecord, TimedStep

PYTORCH = (26_169_645, 2_776_989)


def planned(config: Mapping[str, str] | None = None) -> Plan:
    """A build with two jobs."""
    return context({"jobs": "2", "target": "cpu", **(config or {})}, toolkits=(toolkit("12.8"),)).plan


def taken(plan: Plan, last: BuildRecord | None = None) -> Effort:
    found = estimate_effort(plan, PYTORCH, last)
    assert found is not None
    return found


def record(
    plan: Plan, *, state: str = "done", total: int = 4, left: float | None = None, **steps: float
) -> BuildRecord:
    """A build of a plan's tree that took a minute, with its steps' seconds."""
    build = Build("torch.whl", str(plan.tree.root), "/stage", str(plan.folders.build), "/log", 2)
    made = tuple(
        TimedStep(f"{name.replace('_', '.')}.o", name, 0.0, seconds) for name, seconds in steps.items()
    )
    return BuildRecord(build, state, 100.0, 160.0, len(made), total, left=left, steps=made)


def test_the_build_that_was_measured_is_met() -> None:
    """PyTorch 2.6.0 without CUDA, minimal: 97 minutes with two jobs while other work ran; docs/real-build.md."""
    found = taken(planned({"profile": "minimal"}))
    assert found.least < 97 * 60 < found.most
    assert (found.span, found.basis) == (
        "1 h 30 min to 2 h 10 min",
        "2 jobs, 26.2 MB of C and C++; a guess from PyTorch 2.6.0, measured without CUDA in the profile minimal",
    )


def test_more_components_and_architectures_widen_it() -> None:
    spans = [
        taken(planned(config)).span
        for config in (
            {},
            {"target": "h100", "profile": "minimal"},
            {"target": "h100"},
            {"target": "h100,a100"},
        )
    ]
    assert spans == ["1 h 30 min to 7 h", "3 h to 4 h 30 min", "3 h to 15 h", "3 h 30 min to 23 h"]


@pytest.mark.parametrize(
    ("state", "total", "left", "span", "basis"),
    [
        (
            "done", 2, None, "20 s to 1 min",
            "it was finished here, 2 steps of this build took 40 s together, and what has not changed is kept",
        ),
        ("failed", 5, 27.0, "20 s to 40 s", "2 steps of this build took 40 s together; 3 are left"),
        ("running", 3, 13.0, "10 s to 20 s", "2 steps of this build took 40 s together; 1 is left"),
    ],
)  # fmt: skip
def test_an_earlier_build_in_the_same_folder_is_what_it_rests_on(
    state: str, total: int, left: float | None, span: str, basis: str
) -> None:
    plan = planned()
    found = taken(plan, record(plan, state=state, total=total, left=left, a_cpp=10.0, b_cpp=30.0))
    assert (found.span, found.basis) == (span, basis)
    assert [name for name, _ in found.rows] == ["time", "disk"]


def test_what_is_left_is_told_by_the_build_itself_not_by_what_was_made() -> None:
    """Before the last third of a real build, CUDA's files, it said 30 min to 55 min; the build said 1 h 50 min."""
    plan = planned({"target": "h100", "profile": "minimal", "jobs": "4"})
    found = taken(plan, record(plan, state="interrupted", total=4, left=4 * 3600.0, a_cpp=60.0, b_cpp=60.0))
    assert (found.span, found.basis) == (
        "1 h 40 min to 3 h",
        "2 steps of this build took 2 min together; 2 are left",
    )
    untold = record(plan, state="interrupted", total=4, a_cpp=60.0, b_cpp=60.0)
    assert taken(plan, untold) == taken(plan)


def test_of_a_tree_that_nothing_is_known_of_nothing_is_said() -> None:
    assert estimate_effort(planned(), (0, 0)) is None
