"""One rule: what it says, how much it matters, and where the fact behind it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from string import Formatter

from torchwheel.errors import Problem
from torchwheel.findings import Finding, Severity


class Scope(Enum):
    """What a rule looks at."""

    COMBINATION = "combination"
    """Settings, toolkit release, PyTorch release and platform: no machine, so ``torchwheel lint`` runs it too."""
    MACHINE = "machine"
    """The machine, the tree or the environment as well."""
    PLAN = "plan"
    """Reading the settings or making the plan decides it; the rule explains the finding of the same id."""
    LINT = "lint"
    """A whole target: ``torchwheel lint`` decides it from all of the target's combinations."""


@dataclass(frozen=True)
class Rule:
    """One thing that a build needs.

    Attributes:
        id: stable identifier in kebab case, which ``-C skip-check=ID`` takes.
        subject: the file that holds it, such as ``toolkit``.
        severity: what breaking it means.
        scope: what it looks at.
        quick: whether it is checked before every build, not only by ``torchwheel doctor``.
        what: what is wrong, with ``{placeholders}`` that the check fills.
        why: the reason behind it, the same way; may be empty.
        remedy: what to do, the same way.
        fine: the sentence for when it holds; empty where there is nothing to say then.
        source: a link to the fact.
    """

    id: str
    subject: str
    severity: Severity
    scope: Scope
    quick: bool
    what: str
    why: str
    remedy: str
    fine: str
    source: str

    def finding(self, values: Mapping[str, str], origin: str = "") -> Finding:
        """The rule as a finding, with its texts filled in.

        Raises:
            KeyError: ``values`` lacks one of the placeholders.
        """
        problem = Problem(
            id=self.id,
            what=self.what.format_map(values),
            remedy=self.remedy.format_map(values),
            why=self.why.format_map(values),
            origin=origin,
        )
        return Finding(self.severity, problem)


def placeholders(text: str) -> frozenset[str]:
    """The names that stand in braces in a text.

    Raises:
        ValueError: braces are not paired.
    """
    return frozenset(name for _, name, _, _ in Formatter().parse(text) if name is not None)
