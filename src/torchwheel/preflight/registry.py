"""The input and the answers of checks, and the registry of checks by rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from packaging.requirements import Requirement

from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.build_matrix import Combination, combination_of_plan
from torchwheel.preflight.facts import HostFacts, ToolkitFacts
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.pytorch.releases import PytorchRelease
from torchwheel.toolkit.cuda_releases import ToolkitRelease


@dataclass(frozen=True)
class Context:
    """One planned build on one machine."""

    plan: Plan
    host: HostFacts
    tree: TreeFacts

    @property
    def environment(self) -> Mapping[str, str]:
        """The machine's relevant environment variables."""
        return self.host.environment

    @property
    def variables(self) -> Mapping[str, str]:
        """The machine's environment variables, overridden by those of the settings."""
        settings = self.plan.settings.variables
        return {**self.environment, **{name: str(setting.value) for name, setting in settings.items()}}

    @property
    def windows(self) -> bool:
        return self.host.host.system == "Windows"

    @cached_property
    def combination(self) -> Combination:
        """The part of the build that does not depend on the machine."""
        return combination_of_plan(self.plan)

    @property
    def toolkit(self) -> ToolkitFacts | None:
        """The facts about the plan's toolkit; None without CUDA or for an assumed toolkit."""
        chosen = self.plan.toolkit
        if chosen is None or self.host.toolkits is None:
            return None
        return next((facts for facts in self.host.toolkits if facts.toolkit.root == chosen.root), None)

    @property
    def managed_environment(self) -> bool:
        """Whether torchwheel installs the build requirements itself."""
        return self.plan.folders.environment is not None

    def requires_package(self, package: str) -> bool:
        """Whether the tree's build requirements name a PyPI package, given in lower case."""
        return package in {Requirement(text).name.lower() for text in self.plan.build_requires}

    def has_identifier(self, *names: str) -> bool:
        """Whether the tree's CMake files use one of these identifiers."""
        return any(name in self.plan.tree.known_names for name in names)


T = TypeVar("T")
S = TypeVar("S", Context, Combination)


@dataclass(frozen=True)
class Violation:
    """The rule is broken."""

    values: Mapping[str, str] = field(default_factory=dict)
    nearest: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Passed:
    """The rule holds; ``values`` are for the placeholders of its ``fine`` sentence."""

    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unknown:
    """The rule cannot be judged because ``missing`` is unknown, such as ``the driver``."""

    missing: str


Answer = Violation | Passed | Unknown | None
"""None: the rule does not apply to this build."""

CUDA_RELEASE = "this release of CUDA"
OFFICIAL_INDEX = Unknown("what PyTorch's own index has of this release")


class NotJudged(Exception):
    """A rule cannot be judged because a fact is unknown, or it does not apply to this build."""

    def __init__(self, answer: Unknown | None) -> None:
        super().__init__(answer)
        self.answer = answer


def known_cuda(combination: Combination) -> ToolkitRelease:
    """Return the build's CUDA release; rules about CUDA do not apply without it.

    Raises:
        NotJudged: there is none, or it is not in the tables.
    """
    if combination.toolkit is None:
        raise NotJudged(None if combination.architectures is None else Unknown(CUDA_RELEASE))
    return combination.toolkit


def known_pytorch(combination: Combination) -> PytorchRelease:
    """Return the build's PyTorch release.

    Raises:
        NotJudged: it is not in the tables.
    """
    return require_known(combination.pytorch, "this release of PyTorch")


def require_known(value: T | None, missing: str = "") -> T:
    """Return a value that a rule needs.

    Raises:
        NotJudged: it is None, because ``missing`` is unknown or, if that is empty, does not apply to this build.
    """
    if value is None:
        raise NotJudged(Unknown(missing) if missing else None)
    return value


Check = Callable[[S], Answer]

CONTEXT_CHECKS: dict[str, Check[Context]] = {}
COMBINATION_CHECKS: dict[str, Check[Combination]] = {}


def _make_decorator(checks: dict[str, Check[S]]) -> Callable[[str], Callable[[Check[S]], Check[S]]]:
    def checks_rule(rule_id: str) -> Callable[[Check[S]], Check[S]]:
        def register(check: Check[S]) -> Check[S]:
            def judge_subject(subject: S) -> Answer:
                try:
                    return check(subject)
                except NotJudged as reason:
                    return reason.answer

            checks[rule_id] = judge_subject
            return check

        return register

    return checks_rule


checks_machine = _make_decorator(CONTEXT_CHECKS)
"""Registers the check of a rule of scope ``machine``, given its id."""
checks_combination = _make_decorator(COMBINATION_CHECKS)
"""Registers the check of a rule of scope ``combination``, given its id."""
