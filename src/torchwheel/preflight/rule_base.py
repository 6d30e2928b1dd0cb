"""The rules, ``rules/*.toml``: what each says, how serious it is, and where the fact behind it comes from.

What a rule says when it is broken is a message of the catalogue (``messages.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import Finding, Problem, Severity

FOLDER = Path(__file__).with_name("rules")

# What to fix first: nothing to build at all, then what everything else stands on.
SUBJECTS = (
    "published", "target", "version", "submodules", "toolkit", "architectures", "host_compiler", "windows", "python",
    "build_tools", "components", "libraries", "environment", "disk", "memory", "paths", "stale_cache", "driver",
    "probes",
)  # fmt: skip


class Scope(Enum):
    """What a rule looks at."""

    COMBINATION = "combination"
    """Settings, toolkit release, PyTorch release and platform: ``torchwheel toolkits TARGET`` checks it too."""
    MACHINE = "machine"
    """The machine, the tree or the environment as well."""
    PLAN = "plan"
    """Reading the settings or making the plan decides it; the rule explains the finding of the same id."""


@dataclass(frozen=True)
class Rule:
    """One thing that a build needs.

    Attributes:
        id: stable identifier in kebab case, which ``-C skip-check=ID`` takes.
        subject: the file that holds it, such as ``toolkit``.
        severity: what breaking it means.
        scope: what it looks at.
        quick: whether it needs no GPU and no driver: what is found is the same on every machine of the kind.
        fine: the sentence for when it holds, with ``{placeholders}`` that the check fills; empty where there is nothing
            to say then.
        source: a link to the fact.
        yields_to: rules whose breach leaves this one nothing to say: they name another toolkit for a stronger reason.
    """

    id: str
    subject: str
    severity: Severity
    scope: Scope
    quick: bool
    fine: str
    source: str
    yields_to: tuple[str, ...] = ()

    def finding(self, values: Mapping[str, str], origin: str = "") -> Finding:
        """The rule as a finding, with its texts filled in.

        Raises:
            KeyError: ``values`` lacks one of the placeholders.
        """
        return Finding(self.severity, Problem.of(self.id, origin, **values))


def position(id: str) -> int:
    """Where a rule stands in the order of fixing; what no rule knows comes last."""
    return list(rules()).index(id) if id in rules() else len(rules())


@cache
def rules() -> Mapping[str, Rule]:
    """All rules by id, in the order in which what they find should be fixed."""
    found: dict[str, Rule] = {}
    for subject in SUBJECTS:
        for row in read_toml(FOLDER / f"{subject}.toml")["rule"]:
            texts = {key: row.get(key, "") for key in ("fine", "source")}
            found[row["id"]] = Rule(
                id=row["id"],
                subject=subject,
                severity=Severity(row["severity"]),
                scope=Scope(row.get("scope", Scope.MACHINE.value)),
                quick=row.get("quick", False),
                yields_to=tuple(row.get("yields-to", ())),
                **texts,
            )
    return found
