"""Run the rules on a planned build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.checks import (  # noqa: F401 - importing them registers their checks
    build_environment,
    components,
    cuda,
    host_compiler,
    machine,
    published,
)
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.registry import CHECKS as CHECKS
from torchwheel.preflight.registry import CUDA_RELEASE, Context, Unknown, Violation, fixing_order, read_rules
from torchwheel.preflight.this_machine import read_facts
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
        findings: the plan's own and those of the rules, in the order of fixing.
        skipped: the ids that the user skips.
        unchecked: unknown fact -> ids of the rules that could not be checked without it.
    """

    findings: tuple[Finding, ...]
    skipped: tuple[str, ...] = ()
    unchecked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    passed: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        return stopping_errors(self.findings, self.skipped)

    @property
    def recorded(self) -> tuple[Finding, ...]:
        """The findings that a wheel records: the same on machines with other GPUs or drivers."""
        dependent = {rule.id for rule in read_rules().values() if rule.gpu}
        return tuple(one for one in self.findings if one.id not in dependent)


def check_plan(plan: Plan, host: HostFacts, tree: TreeFacts | None = None) -> Report:
    context = Context(plan, host, read_tree_facts(plan) if tree is None else tree)
    found, passed, unchecked = list(plan.findings), list[str](), dict[str, tuple[str, ...]]()
    decided = {finding.id for finding in plan.findings}
    for rule in read_rules().values():
        answer = CHECKS[rule.id](context) if rule.id in CHECKS.keys() - decided else None
        if isinstance(answer, Violation):
            found.append(rule.finding(answer))
        elif isinstance(answer, Unknown):
            # Without a toolkit the plan has an error already.
            if answer.missing != CUDA_RELEASE or plan.toolkit is not None:
                unchecked[answer.missing] = (*unchecked.get(answer.missing, ()), rule.id)
        elif answer is not None:
            passed.append(rule.id)
    return Report(in_order(found), plan.settings.skip_check, unchecked, tuple(passed))


def run_preflight(plan: Plan, environment: Mapping[str, str], described: HostFacts | None = None) -> Report:
    """Check a plan before its build, for ``described`` if more than the platform of another machine is known."""
    if described is None and not plan.host.here:
        return check_plan(plan, HostFacts(plan.host, compilers_known=False), TreeFacts())
    return check_plan(plan, read_facts(environment, plan) if described is None else described)


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
