"""The rule base: ``rules/*.toml``, checked on loading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import Severity
from torchwheel.preflight.rule import Rule, Scope, placeholders

FOLDER = Path(__file__).with_name("rules")

# What to fix first: nothing to build at all, then what everything else stands on.
SUBJECTS = (
    "published",
    "target",
    "version",
    "submodules",
    "toolkit",
    "architectures",
    "host_compiler",
    "windows",
    "python",
    "build_tools",
    "components",
    "libraries",
    "environment",
    "disk",
    "memory",
    "paths",
    "stale_cache",
    "driver",
    "lint",
)

KEYS = ("id", "severity", "scope", "quick", "what", "why", "remedy", "fine", "source")
"""The keys of a rule, in the order in which they are written."""

_OPTIONAL = frozenset({"scope", "quick", "why", "fine"})
_TEXTS = ("what", "why", "remedy", "fine")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_SEVERITIES = {severity.value: severity for severity in Severity}
_SCOPES = {scope.value: scope for scope in Scope}


@dataclass(frozen=True)
class RuleBase:
    """All rules by id, in the order in which what they find should be fixed."""

    by_id: Mapping[str, Rule]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.by_id.values())

    def find(self, id: str) -> Rule | None:
        """The rule of that id, None if there is none."""
        return self.by_id.get(id)

    def nearest(self, id: str) -> str | None:
        """The id most like one that there is no rule for; None if none is."""
        return next(iter(get_close_matches(id, self.by_id, n=1)), None)

    def position(self, id: str) -> int:
        """Where a rule stands in the order of fixing; what no rule knows comes last."""
        return list(self.by_id).index(id) if id in self.by_id else len(self.by_id)


@cache
def rules() -> RuleBase:
    """The shipped rules."""
    return load_rules(FOLDER)


def load_rules(folder: Path) -> RuleBase:
    """Read and check a folder of rules, one file for each subject.

    Raises:
        TorchwheelError: a file is unreadable, a subject unknown or a rule wrong; all problems at once.
    """
    problems: list[Problem] = []
    found: dict[str, Rule] = {}
    files = {path.stem: path for path in folder.glob("*.toml")}
    for stem in sorted(files.keys() - set(SUBJECTS)):
        problems.append(_problem(f"{stem!r} is not one of the subjects", str(files[stem])))
    for subject in SUBJECTS:
        path = files.get(subject)
        for row in read_toml(path).get("rule", []) if path else ():
            faults = list(_faults(row))
            if row.get("id") in found:
                faults.append("another rule has the same id")
            problems += [_problem(f"rule {row.get('id')!r}: {fault}", str(path)) for fault in faults]
            if not faults:
                found[row["id"]] = _rule(row, subject)
    if problems:
        raise TorchwheelError(problems)
    return RuleBase(found)


def _rule(row: Mapping[str, Any], subject: str) -> Rule:
    return Rule(
        id=row["id"],
        subject=subject,
        severity=_SEVERITIES[row["severity"]],
        scope=_SCOPES[row.get("scope", Scope.MACHINE.value)],
        quick=row.get("quick", False),
        what=row["what"],
        why=row.get("why", ""),
        remedy=row["remedy"],
        fine=row.get("fine", ""),
        source=row["source"],
    )


def _faults(row: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(row.keys() - set(KEYS)):
        yield f"the key {key!r} is unknown; use {', '.join(KEYS)}"
    for key in KEYS:
        value = row.get(key)
        wanted = bool if key == "quick" else str
        if value is None and key not in _OPTIONAL:
            yield f"the key {key!r} is missing"
        elif value is not None and (not isinstance(value, wanted) or value == ""):
            yield f"{key!r} is {value!r}, which is no {wanted.__name__} with something in it"
    yield from _wrong_values(row)


def _wrong_values(row: Mapping[str, Any]) -> Iterator[str]:
    if not _ID.fullmatch(str(row.get("id", "-"))):
        yield "the id is not in kebab case"
    if row.get("severity") not in _SEVERITIES:
        yield f"the severity is not one of {', '.join(_SEVERITIES)}"
    if row.get("scope", Scope.MACHINE.value) not in _SCOPES:
        yield f"the scope is not one of {', '.join(_SCOPES)}"
    if not str(row.get("source", "")).startswith("https://"):
        yield "the source is no https link"
    for key in _TEXTS:
        try:
            names = placeholders(str(row.get(key, "")))
        except ValueError as error:
            yield f"{key!r}: {error}"
        else:
            yield from (
                f"{key!r} has {{{name}}}, which is no name" for name in names if not name.isidentifier()
            )


def _problem(what: str, origin: str) -> Problem:
    return Problem(id="malformed-rule", what=what, remedy="correct the rule", origin=origin)
