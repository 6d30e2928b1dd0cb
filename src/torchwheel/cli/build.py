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
from torchwheel.diagnosis.diagnosis_page import to_dict
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.engine.build import Built, build_wheel, configure
from torchwheel.engine.configuring import Difference
from torchwheel.engine.process import ProcessFailed
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.report import Report
from torchwheel.reporting.errors import AlreadyPrinted, Finding, Problem, problems_of, skipped_errors
from torchwheel.reporting.terminal import print_document, shell_word, show
from torchwheel.survey import BuildRequest, has_extensions
from torchwheel.system.files import file_sha256
from torchwheel.wheel.archive import parse_file_name
from torchwheel.wheel.metadata import write_constraints


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    result = parser.add_mutually_exclusive_group()
    add_wheel_folder_option(result)
    add_output_options(parser)
    result.add_argument(
        "--configure-only",
        action="store_true",
        help="run CMake's configuring alone, and prove that it took what was requested",
    )


def run(parsed: argparse.Namespace) -> int:
    request, output = request_from(parsed), Path(parsed.output).absolute()
    if parsed.configure_only:
        return _configure(request, as_json=parsed.json)
    if has_extensions(request.project):
        return _build_extensions(request, output, as_json=parsed.json)
    if parsed.json:
        _print_outcome(lambda: built_document(build_wheel(request, output)))
        return 0
    built = build_wheel(request, output)
    _print_wheel(built.wheel)
    compiled = built.compiled
    show(f"took         {built.took}, {compiled} {'file was' if compiled == 1 else 'files were'} compiled")
    return 0


def _configure(request: BuildRequest, *, as_json: bool) -> int:
    if as_json:
        _print_outcome(lambda: _configured_document(*configure(request)))
        return 0
    plan, _, unproved = configure(request)
    show(f"\nconfigured   {plan.folders.build}")
    show(f"proved       {_describe_proof(plan, unproved)}, in {plan.folders.cmake_values}")
    show(f"compile      cmake --build '{plan.folders.build}' --target c10")
    return 0


def _describe_proof(plan: Plan, unproved: Sequence[Difference]) -> str:
    expected = sum(define.expected for define in plan.defines)
    if not unproved:
        return f"all {expected} options have their planned values"
    others = ", ".join(f"{one.define.name} is '{one.effective}'" for one in unproved)
    return f"{expected - len(unproved)} of {expected} options have their planned values; {others}"


def _build_extensions(request: BuildRequest, output: Path, *, as_json: bool) -> int:
    # Only here, because a build of PyTorch needs none of its modules.
    from torchwheel.cli.extension import build_project

    if as_json:
        _print_outcome(lambda: wheel_document(build_project(request, output)))
    else:
        _print_wheel(build_project(request, output))
    return 0


def _print_wheel(built: Path) -> None:
    constraints, wheel = write_constraints(built), shell_word(str(built))
    show(f"\nwheel        {built}")
    show(f"constraints  {constraints}")
    # Of the same version, pip would leave another build where it is; so the requirements take a second command.
    show(f"install it   pip install --force-reinstall --no-deps {wheel}")
    show(f"runtime      pip install {wheel}")
    show(f"pin it       pip install -c {shell_word(str(constraints))} PACKAGE")


def _print_outcome(carry_out: Callable[[], dict[str, Any]]) -> None:
    """Carry something out and print the document of how it ended, also where it failed.

    Raises:
        AlreadyPrinted: the work failed.
    """
    began = time.monotonic()
    try:
        with redirect_stdout(sys.stderr):
            content = carry_out()
    except Exception as error:
        problems = problems_of(error)
        failure = _failure_document(problems, error.__cause__)
        print_document("build", ok=False, seconds=_seconds_since(began), **failure)
        raise AlreadyPrinted(problems) from error
    print_document("build", ok=True, seconds=_seconds_since(began), **content)


def wheel_document(wheel: Path) -> dict[str, Any]:
    """What there is to say of a wheel alone; beside it, a constraints file is written."""
    _name, version, _tags = parse_file_name(wheel)
    return {
        "wheel": str(wheel),
        "file": wheel.name,
        "size": wheel.stat().st_size,
        "sha256": file_sha256(wheel).hex(),
        "constraints": str(write_constraints(wheel)),
        "version": version,
        "label": version.partition("+")[2] or None,
    }


def built_document(built: Built) -> dict[str, Any]:
    found = _plan_document(built.plan, built.findings)
    return {**wheel_document(built.wheel), "compiled": built.compiled, **found}


def _configured_document(plan: Plan, report: Report, unproved: Sequence[Difference]) -> dict[str, Any]:
    return {
        "file": plan.wheel_name,
        "cmake_cache": str(plan.folders.cmake_cache),
        "proved": sum(define.expected for define in plan.defines) - len(unproved),
        "unproved": {one.define.name: one.effective for one in unproved},
        **_plan_document(plan, report.recorded),
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
    log, diagnosis = cause.log if isinstance(cause, ProcessFailed) else None, None
    if log is not None:
        with log.open("rb") as stream:
            diagnosis = to_dict(diagnose(stream))
    return {
        "problems": [vars(problem) for problem in problems],
        "log": None if log is None else str(log),
        "diagnosis": diagnosis,
    }


def _seconds_since(began: float) -> float:
    return round(time.monotonic() - began, 3)
