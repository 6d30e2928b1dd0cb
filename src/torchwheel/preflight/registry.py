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


@dataclass(frozen=True)
class Unknown:
    """Whether the rule holds cannot be judged, because ``missing`` is not known, such as ``the driver``."""

    missing: str


Answer = Violation | Passed | Unknown | None
"""None: the rule does not concern this build."""

CUDA_RELEASE = "this release of CUDA"
PYTORCH_RELEASE = "this release of PyTorch"


def unknown(combination: Combination, *, cuda: bool = False, pytorch: bool = False) -> Unknown | None:
    """The answer of a rule that needs the release of ``cuda`` or ``pytorch`` where there is none in the tables.

    Rules about CUDA do not concern a build without it.
    """
    if cuda and combination.architectures is None:
        return None
    if cuda and combination.toolkit is None:
        return Unknown(CUDA_RELEASE)
    return Unknown(PYTORCH_RELEASE) if pytorch and combination.pytorch is None else None


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
