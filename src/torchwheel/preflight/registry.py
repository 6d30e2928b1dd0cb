"""What a check answers, and the checks by the rule that each is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.context import Context


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


Answer = Violation | Passed | None
"""None: the rule does not concern this build, or what it needs is not known."""

ContextCheck = Callable[[Context], Answer]
CombinationCheck = Callable[[Combination], Answer]

CONTEXT_CHECKS: dict[str, ContextCheck] = {}
COMBINATION_CHECKS: dict[str, CombinationCheck] = {}


def checks_machine(rule_id: str) -> Callable[[ContextCheck], ContextCheck]:
    """Register the check of a rule of scope ``machine``."""

    def register(check: ContextCheck) -> ContextCheck:
        CONTEXT_CHECKS[rule_id] = check
        return check

    return register


def checks_combination(rule_id: str) -> Callable[[CombinationCheck], CombinationCheck]:
    """Register the check of a rule of scope ``combination``."""

    def register(check: CombinationCheck) -> CombinationCheck:
        COMBINATION_CHECKS[rule_id] = check
        return check

    return register
