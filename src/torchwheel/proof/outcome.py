"""What checking a wheel comes to: one check after the other, each with its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import Problem
from torchwheel.wheel.contents import WheelContents


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


@dataclass(frozen=True)
class Subject:
    """What is checked.

    Attributes:
        contents: what was read of it; its path is the wheel, or the folder of the installed package.
        files: the paths of its files, from the folder that they are installed into.
    """

    contents: WheelContents
    manifest: dict[str, Any] | None
    files: frozenset[str]
    site: Path | None = None

    @property
    def path(self) -> Path:
        return self.contents.path

    @property
    def planned_modules(self) -> frozenset[str]:
        """The modules of an extension's plan, some of which torch.ops loads."""
        plan = self.manifest["plan"] if self.manifest else {}
        return frozenset(one["file"] for one in plan.get("extensions", {}).get("modules", ()))
