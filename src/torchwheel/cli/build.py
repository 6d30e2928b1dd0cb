"""``torchwheel build``: a wheel for named hardware, and a constraints file that pins it.

With ``--json`` one document says how a build or a configuring ended; the progress goes to standard error then.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torchwheel.cli.request import add_wheel_folder_option, populate_request, request_from
from torchwheel.diagnosis.diagnosis_page import to_dict
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.engine.build import Built, build_wheel, configure
from torchwheel.engine.configuring import Difference
from torchwheel.engine.process import ProcessFailed
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.report import Report
from torchwheel.reporting.errors import AlreadyPrinted, Finding, Problem, problems_of, skipped_errors
from torchwheel.reporting.terminal import print_document, shell_word, show
from torchwheel.survey import has_extensions
from torchwheel.system.files import file_sha256
from torchwheel.wheel.archive import parse_file_name
from torchwheel.wheel.metadata import write_constraints

_T = TypeVar("_T")
_Configured = tuple[Plan, Report, Sequence[Difference]]


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    result = parser.add_mutually_exclusive_group()
    add_wheel_folder_option(result)
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="show nothing of the tree's own build, which is all in the log",
    )
    result.add_argument(
        "--configure-only",
        action="store_true",
        help="run CMake's configuring alone, and prove that it took what was requested",
    )


def run(parsed: argparse.Namespace) -> int:
    request, output = request_from(parsed), Path(parsed.output).absolute()
    if parsed.configure_only:
        return _end(parsed, partial(configure, request), _configured_document, _print_configured)
    if has_extensions(request.project):
        # Only here, because a build of PyTorch needs none of its modules.
        from torchwheel.cli.extension import build_project

        return _end(parsed, partial(build_project, request, output), _wheel_document, _print_wheel)
    return _end(parsed, partial(build_wheel, request, output), _built_document, _print_built)


def _print_built(built: Built) -> None:
    _print_wheel(built.wheel)
    compiled = built.compiled
    show(f"took         {built.took}, {compiled} {'file was' if compiled == 1 else 'files were'} compiled")


def _print_configured(configured: _Configured) -> None:
    plan, _, unproved = configured
    show(f"\nconfigured   {plan.folders.build}")
    show(f"proved       {_describe_proof(plan, unproved)}, in {plan.folders.cmake_values}")
    show(f"compile      cmake --build '{plan.folders.build}' --target c10")


def _describe_proof(plan: Plan, unproved: Sequence[Difference]) -> str:
    expected = sum(define.expected for define in plan.defines)
    if not unproved:
        return f"all {expected} options have their planned values"
    others = ", ".join(f"{one.define.name} is '{one.effective}'" for one in unproved)
    return f"{expected - len(unproved)} of {expected} options have their planned values; {others}"


def _print_wheel(built: Path) -> None:
    constraints, wheel = write_constraints(built), shell_word(str(built))
    show(f"\nwheel        {built}")
    show(f"constraints  {constraints}")
    # Of the same version, pip would leave another build where it is; so the requirements take a second command.
    show(f"install it   pip install --force-reinstall --no-deps {wheel}")
    show(f"runtime      pip install {wheel}")
    show(f"pin it       pip install -c {shell_word(str(constraints))} PACKAGE")


def _end(
    parsed: argparse.Namespace,
    carry_out: Callable[[], _T],
    document: Callable[[_T], dict[str, Any]],
    print_result: Callable[[_T], None],
) -> int:
    """Carry something out and print what came of it, or the document of how it ended, also where it failed.

    Raises:
        AlreadyPrinted: the work failed, and the document says so.
    """
    if not parsed.json:
        print_result(carry_out())
        return 0
    began = time.monotonic()
    try:
        with redirect_stdout(sys.stderr):
            content = document(carry_out())
    except Exception as error:
        problems = problems_of(error)
        failure = _failure_document(problems, error.__cause__)
        print_document("build", ok=False, seconds=round(time.monotonic() - began, 3), **failure)
        raise AlreadyPrinted(problems) from error
    print_document("build", ok=True, seconds=round(time.monotonic() - began, 3), **content)
    return 0


def _wheel_document(wheel: Path) -> dict[str, Any]:
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


def _built_document(built: Built) -> dict[str, Any]:
    found = _plan_document(built.plan, built.findings)
    return {**_wheel_document(built.wheel), "compiled": built.compiled, **found}


def _configured_document(configured: _Configured) -> dict[str, Any]:
    plan, report, unproved = configured
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
    log, diagnosis = None, None
    if isinstance(cause, ProcessFailed):
        log = str(cause.log)
        with cause.log.open("rb") as stream:
            diagnosis = to_dict(diagnose(stream))
    return {"problems": [vars(problem) for problem in problems], "log": log, "diagnosis": diagnosis}
