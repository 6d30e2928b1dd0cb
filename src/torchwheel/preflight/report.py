"""Run the rules on a planned build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.checks import CHECKS
from torchwheel.preflight.effort import Effort, estimate_effort
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.registry import (
    CUDA_RELEASE,
    Answer,
    Context,
    Passed,
    Rule,
    Scope,
    Unknown,
    Violation,
    describe_evidence,
    fixing_order,
    read_rules,
)
from torchwheel.preflight.this_machine import gpu_facts, read_facts
from torchwheel.preflight.tree_facts import TreeFacts, read_tree_facts
from torchwheel.progress.build_record import BuildRecord
from torchwheel.reporting.errors import Finding, Problem, Severity, error, skipped_errors, stopping_errors

NEEDLESS_BUILD = ("need-not-build", "newer-driver-instead")
"""The findings that no build is needed, which come right after the errors."""
MISSING_KERNELS = "native-aot-kernels-missing"
"""A finding about the finished wheel, shown after the build."""


@dataclass(frozen=True)
class Result:
    """A finding with its context."""

    finding: Finding
    nearest: str = ""
    source: str = ""

    def document(self) -> dict[str, str]:
        return {**self.finding.document(), "nearest": self.nearest, "source": self.source}


@dataclass(frozen=True)
class Report:
    """Doctor's report.

    Attributes:
        results: the findings in the order of fixing, with "no build is needed" after the errors.
        passed: id of a passed rule -> sentence.
    """

    wheel: str
    platform: str
    results: tuple[Result, ...]
    passed: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    unchecked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    evidence: str = ""
    effort: Effort | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(result.finding for result in self.results)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that would stop the build."""
        return stopping_errors(self.findings, self.skipped)

    def document(self) -> dict[str, Any]:
        return {
            "wheel": self.wheel,
            "platform": self.platform,
            "ok": not self.errors,
            "findings": [result.document() for result in self.results],
            "skipped": skipped_errors(self.findings, self.skipped),
            "passed": [{"id": id, "what": sentence} for id, sentence in self.passed.items()],
            "unchecked": [
                {"missing": missing, "rules": list(ids)} for missing, ids in self.unchecked.items()
            ],
            "evidence": self.evidence,
            "effort": self.effort.document() if self.effort else None,
        }


def check_plan(
    plan: Plan, host: HostFacts, tree: TreeFacts | None = None, earlier: Iterable[BuildRecord] = ()
) -> Report:
    """Check a planned build against every rule.

    Args:
        earlier: the records of builds on the machine, the latest first.
    """
    context = Context(plan, host, read_tree_facts(plan) if tree is None else tree)
    results, passed, unchecked = _run_rules(context, read_rules().values())
    known = {result.finding.id for result in results}
    results += [Result(finding) for finding in plan.findings if finding.id not in known]
    return Report(
        wheel=plan.wheel_name,
        platform=plan.host.platform_tag,
        results=_in_order(results),
        passed=passed,
        skipped=plan.settings.skip_check,
        unchecked=unchecked,
        evidence=describe_evidence(context.combination),
        effort=estimate_effort(plan, context.tree, earlier),
    )


def report_problems(problems: Iterable[Problem]) -> Report:
    """Report a request that could not be planned."""
    return report_findings(map(error, problems))


def report_findings(findings: Iterable[Finding], skipped: Iterable[str] = ()) -> Report:
    """Report what was found without the rules, as about extensions."""
    found = ((finding, read_rules().get(finding.id)) for finding in findings)
    results = (Result(finding, source=rule.source if rule else "") for finding, rule in found)
    return Report("", "", _in_order(results), skipped=tuple(skipped))


@dataclass(frozen=True)
class Preflight:
    """A plan, unchanged, and the findings of the checks before its build.

    Attributes:
        findings: the plan's own and those of the rules, in the order of fixing, errors first.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    unchecked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that would stop the build."""
        return stopping_errors(self.findings, self.plan.settings.skip_check)

    @property
    def cache_replaced(self) -> bool:
        """Whether a script replaces the compiler cache, because it is missing or unusable."""
        return self.plan.cache_missing or any(one.id == "compiler-cache-left-out" for one in self.findings)


def run_preflight(
    plan: Plan, environment: Mapping[str, str], described: HostFacts | None = None
) -> Preflight:
    """Check a plan before its build.

    ``plan`` prints the findings, and a build stops at errors. All rules run except those about GPUs and driver, which
    do not change the wheel; ``add_gpu_findings`` adds these, and then the findings are the same as ``doctor``'s. Rules
    that cannot be judged, such as most about another machine, are unchecked.

    Args:
        described: another machine of which more than the platform is known.
    """
    chosen = [rule for rule in read_rules().values() if rule.quick and rule.scope is not Scope.PLAN]
    if described is not None:
        context = Context(plan, described, read_tree_facts(plan))
    elif plan.host.here:
        context = Context(plan, read_facts(environment, plan, quick=True), read_tree_facts(plan))
    else:
        context = Context(plan, HostFacts(plan.host, compilers_known=False), TreeFacts())
    return _check_rules(Preflight(plan, plan.findings), context, chosen)


def add_gpu_findings(
    preflight: Preflight, environment: Mapping[str, str], described: HostFacts | None = None
) -> Preflight:
    """Add the findings about GPUs and driver; "no build is needed" comes first.

    Args:
        described: see :func:`run_preflight`; an unknown driver counts as sufficient.
    """
    plan = preflight.plan
    host = gpu_facts(plan, environment) if described is None else described
    chosen = [rule for rule in read_rules().values() if not rule.quick and rule.scope is Scope.MACHINE]
    return _check_rules(preflight, Context(plan, host, TreeFacts()), chosen)


def _check_rules(before: Preflight, context: Context, chosen: Iterable[Rule]) -> Preflight:
    results, _, unchecked = _run_rules(context, chosen)
    known = {finding.id for finding in before.findings}
    more = [result for result in results if result.finding.id not in known]
    ordered = _in_order([*map(Result, before.findings), *more])
    findings = tuple(result.finding for result in ordered)
    return Preflight(before.plan, findings, {**before.unchecked, **unchecked})


def _run_rules(
    context: Context, chosen: Iterable[Rule]
) -> tuple[list[Result], dict[str, str], dict[str, tuple[str, ...]]]:
    """Return the violations, the sentence of each passed rule, and the unknown facts with the rules that need them."""
    results: list[Result] = []
    passed: dict[str, str] = {}
    unchecked: dict[str, tuple[str, ...]] = {}
    decided = {finding.id: finding for finding in context.plan.findings}
    for rule in chosen:
        if rule.id in decided:
            results.append(Result(decided[rule.id], source=rule.source))
            continue
        answer = answer_to(rule, context)
        if isinstance(answer, Violation):
            results.append(result_of(rule, answer))
        elif isinstance(answer, Unknown):
            # Without a toolkit the plan has an error already.
            if answer.missing != CUDA_RELEASE or context.plan.toolkit is not None:
                unchecked[answer.missing] = (*unchecked.get(answer.missing, ()), rule.id)
        elif answer is not None and rule.fine:
            passed[rule.id] = rule.fine.format_map(answer.values)
    return results, passed, unchecked


def result_of(rule: Rule, violation: Violation) -> Result:
    finding = rule.finding({**violation.values, "nearest": violation.nearest}, violation.origin)
    return Result(finding, violation.nearest, rule.source)


def answer_to(rule: Rule, context: Context) -> Answer:
    if rule.scope is Scope.MACHINE:
        return CHECKS[rule.id](context)
    # The plan has no finding of that id; rules about toolkits do not apply without CUDA.
    concerned = context.plan.toolkit is not None or rule.subject != "toolkit"
    return Passed() if concerned else None


def _in_order(results: Iterable[Result]) -> tuple[Result, ...]:
    """Sort results in the order of fixing, without those that yield to another result."""
    every = list(results)
    found = {result.finding.id for result in every}
    yielding = {rule.id for rule in read_rules().values() if not found.isdisjoint(rule.yields_to)}
    return tuple(sorted((one for one in every if one.finding.id not in yielding), key=_sort_key))


def _sort_key(result: Result) -> tuple[bool, bool, int, int]:
    finding = result.finding
    return (
        finding.severity is not Severity.ERROR,
        finding.id not in NEEDLESS_BUILD,
        finding.severity.rank,
        fixing_order(finding.id),
    )
