"""The proof of a wheel by its content alone: builds, `torchwheel verify` and `torchwheel index` share it.

It is one check after the other, each with its outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from torchwheel.reporting.errors import Problem


class CheckOutcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Check:
    """One check of a wheel.

    Attributes:
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
    return Check(name, why, tried=False)
