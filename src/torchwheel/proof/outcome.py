"""What checking a wheel comes to: one check after the other, each with its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from torchwheel.reporting.errors import Problem


class CheckOutcome(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Check:
    """One check of a wheel.

    Attributes:
        name: ``record``, ``names``, ``manifest``, ``libraries``, ``install``, ``import``, ``configuration``, ``cpu``,
            ``gpu`` or ``modules``.
        said: what was seen, with figures; of a check that was not tried, why.
        figures: the same as numbers and names, for other programs.
    """

    name: str
    said: str
    problems: tuple[Problem, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    tried: bool = True
    notes: tuple[Problem, ...] = ()

    @property
    def outcome(self) -> CheckOutcome:
        if self.problems:
            return CheckOutcome.FAILED
        return CheckOutcome.PASSED if self.tried else CheckOutcome.NOT_TRIED


def not_tried(name: str, why: str) -> Check:
    """A check that cannot take place here."""
    return Check(name, why, tried=False)
