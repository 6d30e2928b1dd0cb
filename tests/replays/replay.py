"""Attempts to build PyTorch as data: what somebody had, what they asked for, and what torchwheel says to it.

One file of ``attempts/`` is one attempt. Its host is a file of ``hosts/``, its tree one of ``trees/``, and its log,
where the attempt got that far, one of ``logs/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.system.toml import read_toml

FOLDER = Path(__file__).parent
STAGES = ("settings", "plan", "doctor", "diagnose")
"""The moments at which torchwheel can say something, earliest first."""

_KEYS = frozenset(
    {
        "seed", "attempt", "outcome", "lost", "host", "tree", "after", "log", "answers", "expected", "settings",
        "define", "environment", "passes", "defines",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Said:
    """One thing that torchwheel says.

    Attributes:
        stage: one of ``STAGES``.
        grade: a finding's severity, or of a log's diagnosis ``cause`` or ``consequence``.
        id: the rule's or the diagnosis' id.
    """

    stage: str
    grade: str
    id: str

    def __str__(self) -> str:
        return f"{self.stage} {self.grade} {self.id}"


@dataclass(frozen=True)
class Attempt:
    """One attempt.

    Attributes:
        name: the file's name without its end.
        seed: number of the seed, ``000``; empty for what no seed is about.
        title: what was tried.
        outcome: how it ended in the seed.
        lost: the time that it took there, ``not recorded`` where the seed does not say.
        host: name of the machine.
        tree: name of the source tree.
        after: names of the attempts whose CMake cache lies in the tree's build folder, first one first.
        log: name of the log; empty if there is none.
        answers: ids of what answers this attempt, for the table.
        expected: everything that torchwheel says, in its order.
        config: config settings, as ``-C`` gives them.
        environment: variables beside the machine's own.
        passes: ids of checks that pass.
        defines: CMake options that the plan must hold.
    """

    name: str
    seed: str
    title: str
    outcome: str
    lost: str
    host: str
    tree: str
    after: tuple[str, ...]
    log: str
    answers: tuple[str, ...]
    expected: tuple[Said, ...]
    config: Mapping[str, str]
    environment: Mapping[str, str]
    passes: tuple[str, ...]
    defines: Mapping[str, str] = field(default_factory=dict)


@cache
def attempts() -> Mapping[str, Attempt]:
    """All attempts by name, in the order of the seeds."""
    return {path.stem: _attempt(path) for path in sorted((FOLDER / "attempts").glob("*.toml"))}


def _attempt(path: Path) -> Attempt:
    row: Mapping[str, Any] = read_toml(path)
    assert row.keys() <= _KEYS, (path.name, row.keys() - _KEYS)
    defines = {f"define.{name}": value for name, value in row.get("define", {}).items()}
    return Attempt(
        name=path.stem,
        seed=row.get("seed", ""),
        title=row["attempt"],
        outcome=row["outcome"],
        lost=row["lost"],
        host=row["host"],
        tree=row["tree"],
        after=tuple(row.get("after", ())),
        log=row.get("log", ""),
        answers=tuple(row["answers"]),
        expected=tuple(Said(*text.split()) for text in row["expected"]),
        config={**row.get("settings", {}), **defines},
        environment=row.get("environment", {}),
        passes=tuple(row.get("passes", ())),
        defines=row.get("defines", {}),
    )
