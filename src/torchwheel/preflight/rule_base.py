"""The rules, ``rules/*.toml``: severity, scope, and the source of the fact behind each.

The text for a violation is in the catalogue of messages (``messages.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from torchwheel.reporting.errors import Finding, Problem, Severity
from torchwheel.system.toml import read_toml

FOLDER = Path(__file__).with_name("rules")

# The order of fixing: first whether a build is needed at all, then what everything else depends on.
SUBJECTS = (
    "published", "target", "version", "submodules", "toolkit", "architectures", "host_compiler", "python",
    "build_tools", "components", "libraries", "environment", "disk", "memory", "paths", "stale_cache", "driver",
    "probes",
)  # fmt: skip
_COMPILERS = ("toolkit", "architectures", "host_compiler")


class Scope(Enum):
    """The input of a rule."""

    COMBINATION = "combination"
    """Settings, toolkit release, PyTorch release and platform."""
    MACHINE = "machine"
    """Also the machine, the tree or the environment."""
    PLAN = "plan"
    """Found while reading the settings or making the plan; the rule explains the finding with the same id."""


@dataclass(frozen=True)
class Rule:
    """One condition of a build.

    Attributes:
        quick: whether it needs no GPU and no driver, so that its result is the same on similar machines.
        fine: the sentence if it holds, with ``{placeholders}`` for the check's values; may be empty.
        saves: what the fault costs without the rule: ``minutes`` or ``hours`` until it shows, or ``the build``, which
            ends well and was in vain; empty for a finding of the plan.
        yields_to: rules whose violation hides this one's, because they name another toolkit for a stronger reason.
    """

    id: str
    subject: str
    severity: Severity
    scope: Scope
    quick: bool
    fine: str
    saves: str
    source: str
    yields_to: tuple[str, ...] = ()

    def finding(self, values: Mapping[str, str], origin: str = "") -> Finding:
        """Return the rule as a finding, with its placeholders filled in.

        Raises:
            KeyError: ``values`` lacks one of the placeholders.
        """
        return Finding(self.severity, Problem.of(self.id, origin, **values))


def fixing_order(id: str) -> int:
    """The index of a rule in the order of fixing; unknown ids come last."""
    return list(read_rules()).index(id) if id in read_rules() else len(read_rules())


def is_about_compilers(id: str) -> bool:
    """Whether a rule is about the compilers for the hardware, of which an installed official wheel needs none."""
    return id in read_rules() and read_rules()[id].subject in _COMPILERS


@cache
def read_rules() -> Mapping[str, Rule]:
    """Read all rules by id, in the order of fixing."""
    found: dict[str, Rule] = {}
    for subject in SUBJECTS:
        for row in read_toml(FOLDER / f"{subject}.toml")["rule"]:
            texts = {key: row.get(key, "") for key in ("fine", "saves", "source")}
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
