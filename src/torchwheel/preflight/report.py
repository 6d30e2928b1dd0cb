"""Running the rules over one planned build."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torchwheel.errors import Problem
from torchwheel.findings import Finding, Severity, error
from torchwheel.plan.model import Plan
from torchwheel.preflight.checks import combination_checks, scene_checks
from torchwheel.preflight.context import Scene, TreeFacts
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.facts_here import read_facts
from torchwheel.preflight.registry import Answer, Broken, Fine
from torchwheel.preflight.rule import Rule, Scope
from torchwheel.preflight.rule_base import rules
from torchwheel.preflight.tree_facts import read_tree_facts

NEED_NOT_BUILD = "need-not-build"
_ORDER = tuple(Severity)


@dataclass(frozen=True)
class Result:
    """Something that was found.

    Attributes:
        finding: what, with its remedy.
        nearest: the nearest choice that works; empty where there is none.
        source: a link to the fact behind it; empty where there is none.
    """

    finding: Finding
    nearest: str = ""
    source: str = ""


@dataclass(frozen=True)
class Passed:
    """A rule that holds, in words."""

    id: str
    sentence: str


@dataclass(frozen=True)
class Report:
    """What doctor has to say.

    Attributes:
        wheel: the wheel's name; empty if there is no plan.
        platform: the platform's tag; empty if there is no plan.
        results: what was found, in the order of fixing, with "you need not build" before all.
        passed: what was checked and is fine.
        skipped: ids of findings that the user lets pass.
    """

    wheel: str
    platform: str
    results: tuple[Result, ...]
    passed: tuple[Passed, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings in order."""
        return tuple(result.finding for result in self.results)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that would stop the build."""
        return tuple(
            finding
            for finding in self.findings
            if finding.severity is Severity.ERROR and finding.id not in self.skipped
        )


def check(plan: Plan, host: HostFacts, tree: TreeFacts | None = None) -> Report:
    """Hold a planned build against every rule.

    Args:
        plan: the plan.
        host: the machine.
        tree: the source tree beyond the plan; read from the plan's tree if None.
    """
    if tree is None:
        tree = read_tree_facts(plan)
    scene = Scene(plan, host, tree)
    results, passed = _run(scene, rules())
    known = {result.finding.id for result in results}
    results += [Result(finding) for finding in plan.findings if finding.id not in known]
    return Report(
        wheel=plan.wheel_name,
        platform=plan.host.platform_tag,
        results=tuple(sorted(results, key=_position)),
        passed=tuple(passed),
        skipped=plan.settings.skip_check,
    )


def unplanned(problems: Iterable[Problem]) -> Report:
    """The report on a request that no plan could be made of."""
    found = ((error(problem), rules().find(problem.id)) for problem in problems)
    results = (Result(finding, source=rule.source if rule else "") for finding, rule in found)
    return Report("", "", tuple(sorted(results, key=_position)))


def preflight_findings(plan: Plan, environment: Mapping[str, str]) -> tuple[Finding, ...]:
    """What a build should know before it starts, beside the plan's own findings, in the order of fixing.

    Only rules that are quick run, and only what they need is read: under 0.3 s.

    Args:
        plan: the plan, for this machine or another one.
        environment: the environment variables.
    """
    quick = [rule for rule in rules() if rule.quick and rule.scope is not Scope.PLAN]
    if plan.host.here:
        scene = Scene(plan, read_facts(environment, plan, quick=True), read_tree_facts(plan, quick=True))
    else:
        scene = Scene(plan, HostFacts(plan.host), TreeFacts())
        quick = [rule for rule in quick if rule.scope is Scope.COMBINATION]
    results, _ = _run(scene, quick)
    decided = {finding.id for finding in plan.findings}
    ordered = sorted((result for result in results if result.finding.id not in decided), key=_position)
    return tuple(result.finding for result in ordered)


def _run(scene: Scene, chosen: Iterable[Rule]) -> tuple[list[Result], list[Passed]]:
    results: list[Result] = []
    passed: list[Passed] = []
    decided = {finding.id: finding for finding in scene.plan.findings}
    for rule in chosen:
        if rule.id in decided:
            results.append(Result(decided[rule.id], source=rule.source))
            continue
        answer = answer_to(rule, scene)
        if isinstance(answer, Broken):
            results.append(result_of(rule, answer))
        elif answer is not None and rule.fine:
            passed.append(Passed(rule.id, rule.fine.format_map(answer.values)))
    return results, passed


def result_of(rule: Rule, broken: Broken) -> Result:
    """A broken rule as a result."""
    finding = rule.finding({**broken.values, "nearest": broken.nearest}, broken.origin)
    return Result(finding, broken.nearest, rule.source)


def answer_to(rule: Rule, scene: Scene) -> Answer:
    """What the check of a rule says of a scene."""
    if rule.scope is Scope.COMBINATION:
        return combination_checks()[rule.id](scene.combination)
    if rule.scope is Scope.MACHINE:
        return scene_checks()[rule.id](scene)
    # The plan has no finding of that id; without CUDA the rules about toolkits mean nothing.
    concerned = scene.plan.toolkit is not None or rule.subject != "toolkit"
    return Fine() if rule.scope is Scope.PLAN and concerned else None


def _position(result: Result) -> tuple[bool, int, int]:
    finding = result.finding
    return (
        finding.id != NEED_NOT_BUILD,
        _ORDER.index(finding.severity),
        rules().position(finding.id),
    )
