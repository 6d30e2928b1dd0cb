"""A failure of the tree's own backend, told with its cause if the log shows one that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchwheel.engine.process import ProcessFailed
from torchwheel.errors import Problem
from torchwheel.plan.model import Plan

if TYPE_CHECKING:
    from torchwheel.diagnosis import ErrorLine, Recognised

_ERROR_LINES = 3
_FULL_BYTES = 1 << 20
"""Less than this cannot hold an object file of PyTorch."""


def inner_failure(plan: Plan, failure: ProcessFailed) -> Problem:
    """The failure as a problem that names the log and, as far as it can be read there, the cause."""
    from torchwheel.diagnosis import diagnose

    with failure.log.open("rb") as stream:
        diagnosis = diagnose(stream)
    what = f"the tree's own build backend ({plan.tree.backend}) ended with status {failure.code}"
    origin = str(plan.folders.source)
    if is_full(plan):
        return full_disk(plan, f"{what}, and the disk is full")
    if diagnosis.cause is not None:
        return Problem(
            id="inner-build-failed",
            what=f"{what}: {diagnosis.cause.title}",
            why=_cause(diagnosis.cause, failure),
            remedy="; ".join(diagnosis.cause.change),
            origin=origin,
        )
    return Problem(
        id="inner-build-failed",
        what=what,
        why=_first_errors(diagnosis.errors, failure),
        remedy="mend what the first error names and build again: what is compiled is kept",
        origin=origin,
    )


def is_full(plan: Plan) -> bool:
    """Whether there is no room left where the build happens; compilers and CMake do not always say so."""
    import shutil

    return shutil.disk_usage(plan.folders.root).free < _FULL_BYTES


def full_disk(plan: Plan, what: str) -> Problem:
    """A full disk as a problem.

    Args:
        plan: the plan that was carried out.
        what: what did not work, in one sentence.
    """
    return Problem(
        id="disk-full",
        what=what,
        why=f"compilers and CMake do not always say so; their output is in {plan.folders.log}",
        remedy="make room and build again, which goes on from here, or move torchwheel's cache with "
        "TORCHWHEEL_CACHE_DIR=/another/disk",
        origin=str(plan.folders.root),
    )


def _cause(cause: Recognised, failure: ProcessFailed) -> str:
    return f"{cause.means.strip()} Line {cause.line.number} of {failure.log}: {cause.line.text.strip()}"


def _first_errors(errors: tuple[ErrorLine, ...], failure: ProcessFailed) -> str:
    if not errors:
        return f"its whole output is in {failure.log}"
    lines = [f"\n         {error.line.number}: {error.line.text.strip()}" for error in errors[:_ERROR_LINES]]
    return f"the first errors in {failure.log} are" + "".join(lines)
