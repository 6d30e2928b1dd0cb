"""What a check looks at and what it answers, and the checks by the rule that each is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from packaging.requirements import Requirement

from torchwheel.plan.model import Plan
from torchwheel.preflight.build_matrix import Combination, combination_of_plan
from torchwheel.preflight.facts import HostFacts, ToolkitFacts
from torchwheel.preflight.tree_facts import TreeFacts
from torchwheel.pytorch.releases import PytorchRelease
from torchwheel.toolkit.catalogue import ToolkitRelease


@dataclass(frozen=True)
class Context:
    """One planned build on one machine.

    Attributes:
        tree: the source tree, beyond what the plan says of it.
    """

    plan: Plan
    host: HostFacts
    tree: TreeFacts

    @property
    def environment(self) -> Mapping[str, str]:
        """The machine's environment variables, as far as they matter."""
        return self.host.environment

    @property
    def variables(self) -> Mapping[str, str]:
        """The machine's environment variables, and over them those of the settings."""
        settings = self.plan.settings.variables
        return {**self.environment, **{name: str(setting.value) for name, setting in settings.items()}}

    @property
    def windows(self) -> bool:
        return self.host.host.system == "Windows"

    @cached_property
    def combination(self) -> Combination:
        """The part of the build that needs no machine."""
        return combination_of_plan(self.plan)

    @property
    def toolkit(self) -> ToolkitFacts | None:
        """What is known of the plan's toolkit; None without CUDA, or where the toolkit is only assumed."""
        chosen = self.plan.toolkit
        if chosen is None or self.host.toolkits is None:
            return None
        return next((facts for facts in self.host.toolkits if facts.toolkit.root == chosen.root), None)

    @property
    def managed_environment(self) -> bool:
        """Whether torchwheel installs the build requirements itself."""
        return self.plan.folders.environment is not None

    def requires(self, package: str) -> bool:
        """Whether the tree's build requirements name a package of PyPI, written in lower case."""
        return package in {Requirement(text).name.lower() for text in self.plan.build_requires}

    def mentions(self, *names: str) -> bool:
        """Whether the tree's CMake files use one of these identifiers."""
        return any(name in self.plan.tree.known_names for name in names)


T = TypeVar("T")
S = TypeVar("S", Context, Combination)


@dataclass(frozen=True)
class Violation:
    """The rule is broken.

    Attributes:
        values: what fills the placeholders of the rule's texts.
        nearest: the nearest choice that works, ``12.8``; empty where there is none. Fills ``{nearest}``.
        origin: where the value at fault was written.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    nearest: str = ""
    origin: str = ""


@dataclass(frozen=True)
class Passed:
    """The rule holds; ``values`` fills the placeholders of its ``fine`` sentence."""

    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unknown:
    """Whether the rule holds cannot be judged, because ``missing`` is not known, such as ``the driver``."""

    missing: str


Answer = Violation | Passed | Unknown | None
"""None: the rule does not concern this build."""

CUDA_RELEASE = "this release of CUDA"


class NotJudged(Exception):
    """A rule cannot be judged, because something is not known, or it does not concern this build.

    Attributes:
        answer: which of the two.
    """

    def __init__(self, answer: Unknown | None) -> None:
        super().__init__(answer)
        self.answer = answer


def known_cuda(combination: Combination) -> ToolkitRelease:
    """The CUDA release that a rule is about; rules about CUDA do not concern a build without it.

    Raises:
        NotJudged: there is none, or none in the tables.
    """
    if combination.toolkit is None:
        raise NotJudged(None if combination.architectures is None else Unknown(CUDA_RELEASE))
    return combination.toolkit


def known_pytorch(combination: Combination) -> PytorchRelease:
    """The PyTorch release that a rule is about.

    Raises:
        NotJudged: it is not in the tables.
    """
    return known(combination.pytorch, "this release of PyTorch")


def known(value: T | None, missing: str = "") -> T:
    """A value that a rule needs.

    Raises:
        NotJudged: it is None: what is ``missing`` is not known, or, where that is empty, has no part in this build.
    """
    if value is None:
        raise NotJudged(Unknown(missing) if missing else None)
    return value


Check = Callable[[S], Answer]

CONTEXT_CHECKS: dict[str, Check[Context]] = {}
COMBINATION_CHECKS: dict[str, Check[Combination]] = {}


def _registering(checks: dict[str, Check[S]]) -> Callable[[str], Callable[[Check[S]], Check[S]]]:
    def checks_rule(rule_id: str) -> Callable[[Check[S]], Check[S]]:
        def register(check: Check[S]) -> Check[S]:
            def judged(subject: S) -> Answer:
                try:
                    return check(subject)
                except NotJudged as reason:
                    return reason.answer

            checks[rule_id] = judged
            return check

        return register

    return checks_rule


checks_machine = _registering(CONTEXT_CHECKS)
"""Registers the check of a rule of scope ``machine``, given its id."""
checks_combination = _registering(COMBINATION_CHECKS)
"""Registers the check of a rule of scope ``combination``, given its id."""
