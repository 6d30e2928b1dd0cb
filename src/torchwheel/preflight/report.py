"""Running the rules over one planned build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchwheel.errors import Finding, Problem, Severity, error, skipped_errors, stopping
from torchwheel.plan.model import Plan
from torchwheel.preflight.build_matrix import evidence
from torchwheel.preflight.checks import COMBINATION_CHECKS, CONTEXT_CHECKS
from torchwheel.preflight.effort import Effort, effort
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.registry import CUDA_RELEASE, Answer, Context, Passed, Unknown, Violation
from torchwheel.preflight.rule_base import Rule, Scope, position, rules
from torchwheel.preflight.this_machine import gpu_facts, read_facts
from torchwheel.preflight.tree_facts import TreeFacts, read_tree_facts
from torchwheel.progress.record import Record

FIRST_OF_ALL = ("need-not-build", "newer-driver-instead")
"""That there is nothing to build comes after the errors."""
MISSING_KERNELS = "native-aot-kernels-missing"
"""What is said of a wheel when it is built."""


@dataclass(frozen=True)
class Result:
    """Something that was found.

    Attributes:
        nearest: the nearest choice that works; empty where there is none.
        source: a link to the fact behind it; empty where there is none.
    """

    finding: Finding
    nearest: str = ""
    source: str = ""

    def document(self) -> dict[str, str]:
        return {**self.finding.document(), "nearest": self.nearest, "source": self.source}


@dataclass(frozen=True)
class Report:
    """What doctor has to say.

    Attributes:
        wheel: the wheel's name; empty if there is no plan.
        platform: the platform's tag; empty if there is no plan.
        results: what was found, in the order of fixing, with "you need not build" after the errors.
        passed: what was checked and is fine: id of the rule -> sentence.
        skipped: ids of findings that the user lets pass.
        unchecked: what is not known -> ids of the rules that could not be checked for want of it.
        evidence: what it rests on that PyTorch, CUDA and the platform go together; empty where nothing is known.
        effort: what the build takes; None where that is not known.
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
        return stopping(self.findings, self.skipped)

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


def check(
    plan: Plan, host: HostFacts, tree: TreeFacts | None = None, earlier: Iterable[Record] = ()
) -> Report:
    """Hold a planned build against every rule.

    Args:
        tree: the source tree beyond the plan; read from the plan's tree if None.
        earlier: the records of builds on the machine, the latest first.
    """
    context = Context(plan, host, read_tree_facts(plan) if tree is None else tree)
    results, passed, unchecked = _run(context, rules().values())
    known = {result.finding.id for result in results}
    results += [Result(finding) for finding in plan.findings if finding.id not in known]
    return Report(
        wheel=plan.wheel_name,
        platform=plan.host.platform_tag,
        results=_in_order(results),
        passed=passed,
        skipped=plan.settings.skip_check,
        unchecked=unchecked,
        evidence=evidence(context.combination),
        effort=effort(plan, context.tree, earlier),
    )


def unplanned(problems: Iterable[Problem]) -> Report:
    """The report on a request that no plan could be made of."""
    found = ((error(problem), rules().get(problem.id)) for problem in problems)
    results = (Result(finding, source=rule.source if rule else "") for finding, rule in found)
    return Report("", "", _in_order(results))


@dataclass(frozen=True)
class Preflight:
    """A plan, which stays as it was made, and what the checks before its build found.

    Attributes:
        findings: the plan's own and those of the rules, in the order of fixing, errors first.
        unchecked: what is not known -> ids of the rules that could not be checked for want of it.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    unchecked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that would stop the build."""
        return stopping(self.findings, self.plan.settings.skip_check)

    @property
    def stand_in(self) -> bool:
        """Whether a script takes the compiler cache's place: it is missing, or cannot be used."""
        return self.plan.stand_in or any(one.id == "compiler-cache-left-out" for one in self.findings)


def run_preflight(
    plan: Plan, environment: Mapping[str, str], described: HostFacts | None = None
) -> Preflight:
    """Find everything that a build should know before it starts.

    ``plan`` prints it, and a build stops at its errors. All rules run but those about GPUs and driver, which do not
    change the wheel; ``add_gpu_findings`` adds them, and then ``doctor`` finds nothing that this does not. What
    cannot be judged, as most of what is about another platform's machine, is unchecked.

    Args:
        plan: the plan, for this machine or another one.
        described: the machine, where it is another one of which more than the platform is known.
    """
    chosen = [rule for rule in rules().values() if rule.quick and rule.scope is not Scope.PLAN]
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
    """Add what there is to say of GPUs and driver; that building is needless comes first.

    Args:
        described: see :func:`run_preflight`; where the driver is not known, every one will do.
    """
    plan = preflight.plan
    host = gpu_facts(plan, environment) if described is None else described
    chosen = [rule for rule in rules().values() if not rule.quick and rule.scope is Scope.MACHINE]
    return _check_rules(preflight, Context(plan, host, TreeFacts()), chosen)


def _check_rules(before: Preflight, context: Context, chosen: Iterable[Rule]) -> Preflight:
    results, _, unchecked = _run(context, chosen)
    known = {finding.id for finding in before.findings}
    more = [result for result in results if result.finding.id not in known]
    ordered = _in_order([*map(Result, before.findings), *more])
    findings = tuple(result.finding for result in ordered)
    return Preflight(before.plan, findings, {**before.unchecked, **unchecked})


def _run(
    context: Context, chosen: Iterable[Rule]
) -> tuple[list[Result], dict[str, str], dict[str, tuple[str, ...]]]:
    """What is broken, the sentence of each rule that holds, and what the rules that nobody can judge would need."""
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
            # Without a toolkit the plan says so, and there is no release to know anything of.
            if answer.missing != CUDA_RELEASE or context.plan.toolkit is not None:
                unchecked[answer.missing] = (*unchecked.get(answer.missing, ()), rule.id)
        elif answer is not None and rule.fine:
            passed[rule.id] = rule.fine.format_map(answer.values)
    return results, passed, unchecked


def result_of(rule: Rule, violation: Violation) -> Result:
    """A broken rule as a result."""
    finding = rule.finding({**violation.values, "nearest": violation.nearest}, violation.origin)
    return Result(finding, violation.nearest, rule.source)


def answer_to(rule: Rule, context: Context) -> Answer:
    """What the check of a rule says of a planned build."""
    if rule.scope is Scope.COMBINATION:
        return COMBINATION_CHECKS[rule.id](context.combination)
    if rule.scope is Scope.MACHINE:
        return CONTEXT_CHECKS[rule.id](context)
    # The plan has no finding of that id; without CUDA the rules about toolkits mean nothing.
    concerned = context.plan.toolkit is not None or rule.subject != "toolkit"
    return Passed() if rule.scope is Scope.PLAN and concerned else None


def _in_order(results: Iterable[Result]) -> tuple[Result, ...]:
    """What was found in the order of fixing, without what yields to something else that was found."""
    every = list(results)
    found = {result.finding.id for result in every}
    yielding = {rule.id for rule in rules().values() if not found.isdisjoint(rule.yields_to)}
    return tuple(sorted((one for one in every if one.finding.id not in yielding), key=_position))


def _position(result: Result) -> tuple[bool, bool, int, int]:
    finding = result.finding
    return (
        finding.severity is not Severity.ERROR,
        finding.id not in FIRST_OF_ALL,
        finding.severity.rank,
        position(finding.id),
    )
