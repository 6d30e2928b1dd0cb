"""What the preflight found before the last build of the same plan that succeeded.

Examining the machine takes longer than everything else that torchwheel does around a build in which nothing
is to be compiled. After a success there is nothing to foresee any more, until the plan changes.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import torchwheel
from torchwheel._dataclass import dataclass, replace
from torchwheel.engine.replacing import replace_text
from torchwheel.errors import Problem
from torchwheel.findings import Finding, Severity
from torchwheel.plan.document import finding_document, plan_document
from torchwheel.plan.model import Plan

_FILE = "preflight.json"


@dataclass(frozen=True)
class Examined:
    """A plan, and what the preflight found about carrying it out here.

    Attributes:
        made: the plan as it was made.
        found: the preflight's findings, none of which the plan has itself.
    """

    made: Plan
    found: tuple[Finding, ...]

    @property
    def plan(self) -> Plan:
        """The plan with all findings."""
        return replace(self.made, findings=(*self.made.findings, *self.found))

    def remember(self) -> None:
        """Keep what was found, once the build has succeeded.

        Raises:
            OSError: the build's folder cannot be written to.
        """
        rows = [finding_document(finding) for finding in self.found]
        replace_text(_place(self.made), json.dumps({"plan": _digest(self.made), "findings": rows}))


def remembered_findings(plan: Plan) -> tuple[Finding, ...] | None:
    """What was found then, or None if this plan has not succeeded yet."""
    try:
        record = json.loads(_place(plan).read_text(encoding="utf-8"))
        if record["plan"] != _digest(plan):
            return None
        return tuple(_finding(row) for row in record["findings"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _place(plan: Plan) -> Path:
    return plan.folders.root / _FILE


def _digest(plan: Plan) -> str:
    text = json.dumps([torchwheel.__version__, plan_document(plan)], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _finding(row: dict[str, str]) -> Finding:
    problem = Problem(row["id"], row["what"], row["remedy"], row["why"], row["origin"])
    return Finding(Severity(row["severity"]), problem)
