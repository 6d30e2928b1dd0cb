"""What every hook and command does around the tree's own backend: refuse bad plans, tell of failures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from torchwheel.engine.process import ProcessFailed
from torchwheel.engine.provided_toolkit import assemble, install_packages
from torchwheel.errors import TorchwheelError
from torchwheel.findings import Severity, stop_on_errors
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.preflight import preflight_findings
from torchwheel.survey import BuildRequest, survey


def checked_plan(request: BuildRequest) -> Plan:
    """The plan of a request, if nothing speaks against carrying it out.

    Raises:
        TorchwheelError: the request cannot be read, or the plan has errors that are not skipped.
    """
    plan = make_plan(survey(request))
    stop_on_errors(plan.findings, plan.settings.skip_check)
    return plan


def examined_plan(request: BuildRequest) -> Plan:
    """The plan of a request that is about to be built, with what the preflight found.

    Raises:
        TorchwheelError: as of :func:`checked_plan`; or the preflight found errors that are not skipped.
    """

    plan = _with_toolkit(checked_plan(request), request)
    found = preflight_findings(plan, request.environment)
    stop_on_errors(found, plan.settings.skip_check)
    return replace(plan, findings=(*plan.findings, *found))


def _with_toolkit(plan: Plan, request: BuildRequest) -> Plan:
    """The plan with its toolkit in place; another one if packages had to be installed, whose versions it names."""
    if not plan.toolkit_requires:
        return plan

    if plan.toolkit_packages is None:
        install_packages(plan, request)
        plan = checked_plan(request)
    assemble(plan, request)
    return plan


def print_findings(plan: Plan) -> None:
    """Say what is worth knowing before a long build starts: warnings, and errors that are skipped."""
    for finding in plan.findings:
        if finding.severity is not Severity.NOTE:
            print(f"torchwheel: {finding.render()}", flush=True)


@contextmanager
def diagnose_failures(plan: Plan) -> Iterator[None]:
    """Turn a failure of the tree's own backend into the one error type.

    Raises:
        TorchwheelError: the backend failed; its log is read for the cause.
    """
    try:
        yield
    except ProcessFailed as failure:
        from torchwheel.engine.failure import inner_failure

        raise TorchwheelError(inner_failure(plan, failure)) from failure
