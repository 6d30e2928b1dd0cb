"""Run the rules on a planned build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.all_checks import CHECKS
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.registry import (
    CUDA_RELEASE,
    Context,
    Rule,
    Unknown,
    Violation,
    fixing_order,
    read_rules,
)
from torchwheel.preflight.this_machine import gpu_facts, read_facts
from torchwheel.preflight.tree_facts import TreeFacts, read_tree_facts
from torchwheel.reporting.errors import Finding, Severity, stopping_errors

NEEDLESS_BUILD = ("need-not-build", "newer-driver-instead")
"""The findings that no build is needed, which come right after the errors."""
MISSING_KERNELS = "native-aot-kernels-missing"
"""A finding about the finished wheel, shown after the build."""


@dataclass(frozen=True)
class Report:
    """What the checks of a planned build found.

    Attributes:
        findings: the plan's own and those of the rules, in the order of fixing: errors, then that no build is needed.
        skipped: the ids that the user skips.
        unchecked: unknown fact -> ids of the rules that could not be checked without it.
        passed: the ids of the rules that hold.
    """

    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()
    unchecked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passed: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that would stop the build."""
        return stopping_errors(self.findings, self.skipped)


def check_plan(
    plan: Plan,
    host: HostFacts,
    tree: TreeFacts | None = None,
    *,
    rules: Iterable[Rule] | None = None,
    before: Report | None = None,
) -> Report:
    """Check a planned build against rules.

    Args:
        rules: the rules; None for all.
        before: the report of the other rules, to which this one is added.
    """
    before = Report(plan.findings, plan.settings.skip_check) if before is None else before
    context = Context(plan, host, read_tree_facts(plan) if tree is None else tree)
    decided = {finding.id for finding in before.findings}
    found, passed, unchecked = list(before.findings), list(before.passed), dict(before.unchecked)
    for rule in read_rules().values() if rules is None else rules:
        answer = CHECKS[rule.id](context) if rule.id in CHECKS.keys() - decided else None
        if isinstance(answer, Violation):
            found.append(rule.finding(answer))
        elif isinstance(answer, Unknown):
            # Without a toolkit the plan has an error already.
            if answer.missing != CUDA_RELEASE or plan.toolkit is not None:
                unchecked[answer.missing] = (*unchecked.get(answer.missing, ()), rule.id)
        elif answer is not None:
            passed.append(rule.id)
    return Report(in_order(found), before.skipped, unchecked, tuple(passed))


def run_preflight(plan: Plan, environment: Mapping[str, str], described: HostFacts | None = None) -> Report:
    """Check a plan before its build.

    ``plan`` prints the findings, and a build stops at errors. All rules run except those about GPUs and driver, which
    do not change the wheel; ``add_gpu_findings`` adds these, and then the findings are the same as ``doctor``'s. Rules
    that cannot be judged, such as most about another machine, are unchecked.

    Args:
        described: another machine of which more than the platform is known.
    """
    chosen = [rule for rule in read_rules().values() if not rule.gpu]
    tree = None
    if described is None and plan.host.here:
        described = read_facts(environment, plan, quick=True)
    elif described is None:
        described, tree = HostFacts(plan.host, compilers_known=False), TreeFacts()
    return check_plan(plan, described, tree, rules=chosen)


def add_gpu_findings(
    report: Report, plan: Plan, environment: Mapping[str, str], described: HostFacts | None = None
) -> Report:
    """Add the findings about GPUs and driver; "no build is needed" comes first.

    Args:
        described: see :func:`run_preflight`; an unknown driver counts as sufficient.
    """
    host = gpu_facts(plan, environment) if described is None else described
    chosen = [rule for rule in read_rules().values() if rule.gpu]
    return check_plan(plan, host, TreeFacts(), rules=chosen, before=report)


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings in the order of fixing, without those that yield to another one."""
    every = list(findings)
    found = {finding.id for finding in every}
    yielding = {rule.id for rule in read_rules().values() if not found.isdisjoint(rule.yields_to)}
    return tuple(sorted((one for one in every if one.id not in yielding), key=_sort_key))


def _sort_key(finding: Finding) -> tuple[bool, bool, int, int]:
    return (
        finding.severity is not Severity.ERROR,
        finding.id not in NEEDLESS_BUILD,
        finding.severity.rank,
        fixing_order(finding.id),
    )
