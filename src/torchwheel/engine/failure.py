"""A failure of the tree's own backend, told with its cause if the log shows one that is known."""

from __future__ import annotations

from torchwheel.engine.process import ProcessFailed
from torchwheel.errors import Problem
from torchwheel.plan.model import Plan


def inner_failure(plan: Plan, failure: ProcessFailed) -> Problem:
    """The failure as a problem that names the log and, as far as it can be read there, the cause."""
    return Problem(
        id="inner-build-failed",
        what=f"the tree's own build backend ({plan.tree.backend}) ended with status {failure.code}",
        why=f"its whole output is in {failure.log}",
        remedy="the first error in that log is the cause; 'torchwheel diagnose' reads it",
        origin=str(plan.folders.source),
    )
