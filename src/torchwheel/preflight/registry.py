"""What a check answers, and the table of checks by the rule that they are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.context import Scene


@dataclass(frozen=True)
class Broken:
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
class Fine:
    """The rule holds; ``values`` fills the placeholders of its ``fine`` sentence."""

    values: Mapping[str, str] = field(default_factory=dict)


Answer = Broken | Fine | None
"""None: the rule does not concern this build, or what it needs is not known."""

SceneCheck = Callable[["Scene"], Answer]
CombinationCheck = Callable[["Combination"], Answer]

SCENE_CHECKS: dict[str, SceneCheck] = {}
COMBINATION_CHECKS: dict[str, CombinationCheck] = {}


def checks_machine(rule_id: str) -> Callable[[SceneCheck], SceneCheck]:
    """Register the check of a rule of scope ``machine``."""

    def register(check: SceneCheck) -> SceneCheck:
        SCENE_CHECKS[rule_id] = check
        return check

    return register


def checks_combination(rule_id: str) -> Callable[[CombinationCheck], CombinationCheck]:
    """Register the check of a rule of scope ``combination``."""

    def register(check: CombinationCheck) -> CombinationCheck:
        COMBINATION_CHECKS[rule_id] = check
        return check

    return register
