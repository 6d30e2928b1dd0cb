"""A failure of the tree's own backend as a problem: with its cause, if the log shows one that is known."""

from __future__ import annotations

import shutil
from pathlib import Path

from torchwheel.diagnosis import Recognised, diagnose
from torchwheel.engine.process import ProcessFailed
from torchwheel.errors import Problem
from torchwheel.plan.model import Plan

_FULL_BYTES = 1 << 20
"""Less than this cannot hold an object file of PyTorch."""


def inner_failure(plan: Plan, failure: ProcessFailed) -> Problem:
    """The failure as a problem that names the log and, as far as it can be read there, the cause."""
    what = f"the tree's own build backend ({plan.tree.backend}) ended with status {failure.code}"
    if is_full(plan.folders.root):
        return full_disk(plan.folders.root, plan.folders.log, f"{what}, and the disk is full")
    return explained_failure("inner-build-failed", what, failure.log, str(plan.folders.source))


def explained_failure(id_: str, what: str, log: Path, origin: str) -> Problem:
    """A failed build as a problem: with the cause if the log shows one that is known, else its first errors.

    Args:
        id_: the problem's identifier.
        what: what failed, in one sentence.
        log: the build's whole output.
        origin: what was built.
    """

    with log.open("rb") as stream:
        diagnosis = diagnose(stream)
    if diagnosis.cause is not None:
        return Problem(
            id=id_,
            what=f"{what}: {diagnosis.cause.title}",
            why=_cause(diagnosis.cause, log),
            remedy="; ".join(diagnosis.cause.change),
            origin=origin,
        )
    return Problem(
        id=id_,
        what=what,
        why=f"its whole output is in {log}",
        remedy="look into it, and build again: what is compiled is kept",
        origin=origin,
    )


def is_full(folder: Path) -> bool:
    """Whether there is no room left where a build happens; compilers and CMake do not always say so."""

    return shutil.disk_usage(folder).free < _FULL_BYTES


def full_disk(folder: Path, log: Path, what: str) -> Problem:
    """A full disk as a problem.

    Args:
        folder: where the build happens.
        log: its whole output.
        what: what did not work, in one sentence.
    """
    return Problem(
        id="disk-full",
        what=what,
        why=f"compilers and CMake do not always say so; their output is in {log}",
        remedy="make room and build again, which goes on from here, or move torchwheel's cache with "
        "TORCHWHEEL_CACHE_DIR=/another/disk",
        origin=str(folder),
    )


def _cause(cause: Recognised, log: Path) -> str:
    return f"{cause.means.strip()} Line {cause.line.number} of {log}: {cause.line.text.strip()}"
