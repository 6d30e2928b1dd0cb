"""How a build or a configuring ended, as one JSON document; the progress goes to standard error then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from torchwheel._files import file_sha256
from torchwheel.diagnosis import diagnose, to_dict
from torchwheel.engine.build import Built
from torchwheel.engine.process import ProcessFailed
from torchwheel.errors import Problem
from torchwheel.findings import skipped_errors
from torchwheel.plan.model import Plan
from torchwheel.reporting import AlreadyPrinted, print_document, problems_of


def print_outcome(command: str, carry_out: Callable[[], dict[str, Any]]) -> None:
    """Carry something out and print the document of how it ended, also where it failed.

    Args:
        command: the command's name.
        carry_out: does the work, and returns what the document says of it.

    Raises:
        AlreadyPrinted: the work failed.
    """
    began = time.monotonic()
    try:
        with redirect_stdout(sys.stderr):
            content = carry_out()
    except Exception as error:
        problems = problems_of(error)
        print_document(command, ok=False, seconds=_since(began), **_failure(problems, error.__cause__))
        raise AlreadyPrinted(problems) from error
    print_document(command, ok=True, seconds=_since(began), **content)


def built_document(built: Built, constraints: Path) -> dict[str, Any]:
    """What there is to say of a wheel that was built.

    Raises:
        OSError: the wheel or the log cannot be read.
    """
    return {
        "wheel": str(built.wheel),
        "file": built.wheel.name,
        "size": built.wheel.stat().st_size,
        "sha256": file_sha256(built.wheel).hex(),
        "constraints": str(constraints),
        "compiled": built.compiled,
        **_plan(built.plan),
    }


def configured_document(plan: Plan, proved: int) -> dict[str, Any]:
    """What there is to say of a build directory that was configured, and how many options were proved."""
    return {
        "file": plan.wheel_name,
        "cmake_cache": str(plan.folders.cmake_cache),
        "proved": proved,
        **_plan(plan),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "version": str(plan.version),
        "label": plan.version.local,
        "build": str(plan.folders.build),
        "log": str(plan.folders.log),
        "findings": [finding.document() for finding in plan.findings],
        "skipped": skipped_errors(plan.findings, plan.settings.skip_check),
    }


def _failure(problems: Sequence[Problem], cause: BaseException | None) -> dict[str, Any]:
    """The problems; and where the tree's own backend failed, its log and what that shows."""
    log = cause.log if isinstance(cause, ProcessFailed) else None
    return {
        "problems": [vars(problem) for problem in problems],
        "log": None if log is None else str(log),
        "diagnosis": None if log is None else _diagnosis(log),
    }


def _diagnosis(log: Path) -> dict[str, Any]:
    with log.open("rb") as stream:
        return to_dict(diagnose(stream))


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)
