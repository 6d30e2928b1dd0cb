"""``torchwheel build``: a wheel for named hardware, and a constraints file that pins it.

With ``--json`` one document says how a build or a configuring ended; the progress goes to standard error then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from torchwheel.cli.request import (
    add_output_options,
    add_wheel_folder_option,
    populate_request,
    request_from,
)
from torchwheel.diagnosis import diagnose, to_dict
from torchwheel.engine.build import Built, build_wheel
from torchwheel.engine.process import ProcessFailed
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.cmake_cache import Difference
from torchwheel.preflight import Preflight
from torchwheel.reporting.errors import AlreadyPrinted, Finding, Problem, problems_of, skipped_errors
from torchwheel.reporting.terminal import add_json_option, print_document, shell_word, show
from torchwheel.system.files import file_sha256
from torchwheel.wheel.metadata import write_constraints


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    add_wheel_folder_option(parser)
    add_output_options(parser)
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Build, and say what came out and how to install it."""
    if parsed.json:
        print_outcome("build", lambda: built_document(*_build(parsed)))
        return 0
    built, constraints = _build(parsed)
    wheel = shell_word(str(built.wheel))
    show(f"\nwheel        {built.wheel}")
    show(f"constraints  {constraints}")
    # Of the same version, pip would leave another build where it is; so the requirements take a second command.
    show(f"install it   pip install --force-reinstall --no-deps {wheel}")
    show(f"runtime      pip install {wheel}")
    show(f"pin it       pip install -c {shell_word(str(constraints))} PACKAGE")
    compiled = built.compiled
    show(f"took         {built.took}, {compiled} {'file was' if compiled == 1 else 'files were'} compiled")
    return 0


def _build(parsed: argparse.Namespace) -> tuple[Built, Path]:
    """The wheel, and the constraints file beside it."""
    built = build_wheel(request_from(parsed), Path(parsed.output).absolute())
    return built, write_constraints(built.wheel)


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
        print_document(
            command, ok=False, seconds=_seconds_since(began), **_failure_document(problems, error.__cause__)
        )
        raise AlreadyPrinted(problems) from error
    print_document(command, ok=True, seconds=_seconds_since(began), **content)


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
        **_plan_document(built.plan, built.findings),
    }


def configured_document(preflight: Preflight, unproved: Sequence[Difference]) -> dict[str, Any]:
    """Describe a configured build directory, and how many options were proved."""
    plan = preflight.plan
    return {
        "file": plan.wheel_name,
        "cmake_cache": str(plan.folders.cmake_cache),
        "proved": sum(define.expected for define in plan.defines) - len(unproved),
        "unproved": {one.define.name: one.effective for one in unproved},
        **_plan_document(plan, preflight.findings),
    }


def _plan_document(plan: Plan, findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "version": str(plan.version),
        "label": plan.version.local,
        "build": str(plan.folders.build),
        "log": str(plan.folders.log),
        "findings": [finding.document() for finding in findings],
        "skipped": skipped_errors(findings, plan.settings.skip_check),
    }


def _failure_document(problems: Sequence[Problem], cause: BaseException | None) -> dict[str, Any]:
    """The problems; and where the tree's own backend failed, its log and what that shows."""
    log = cause.log if isinstance(cause, ProcessFailed) else None
    return {
        "problems": [vars(problem) for problem in problems],
        "log": None if log is None else str(log),
        "diagnosis": None if log is None else _diagnosis_document(log),
    }


def _diagnosis_document(log: Path) -> dict[str, Any]:
    with log.open("rb") as stream:
        return to_dict(diagnose(stream))


def _seconds_since(began: float) -> float:
    return round(time.monotonic() - began, 3)
