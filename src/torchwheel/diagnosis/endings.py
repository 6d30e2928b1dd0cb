"""The last words of work that went well (``endings.toml``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.diagnosis.decoding import TailLine
from torchwheel.system.toml import read_toml

_TABLE = Path(__file__).with_name("endings.toml")


@dataclass(frozen=True)
class Ending:
    """A form of words of success.

    Attributes:
        needle: a literal of the line; empty for one that is looked for at the end of the log only.
        settles: what of earlier failures did not matter: ``build`` those of builds, ``all``; empty for nothing.
    """

    needle: str
    regex: re.Pattern[str]
    settles: str
    example: str


@cache
def read_endings() -> tuple[Ending, ...]:
    rows = read_toml(_TABLE)["ending"]
    return tuple(
        Ending(
            row.get("needle", ""),
            re.compile(row["regex"], re.MULTILINE),
            row.get("settles", ""),
            row["example"],
        )
        for row in rows
    )


@cache
def settling_needles() -> frozenset[str]:
    return frozenset(one.needle for one in read_endings() if one.settles)


def settles(text: str, needles: Iterable[str]) -> str:
    """What a line settles that says that the whole work went well; empty for any other."""
    ways = (
        one.settles
        for one in read_endings()
        if one.settles and one.needle in needles and one.regex.search(text.strip())
    )
    return next(ways, "")


def last_ending(lines: Sequence[TailLine]) -> int:
    """Return the number of the last line that says that work went well; 0 if none does or other work followed."""
    begun: set[str] = set()
    for line in reversed(lines):
        text = f"{line.plain.strip()}\n{line.line.text.strip()}"
        steps = {match[0] for match in read_work().finditer(text)}
        if any(one.regex.search(text) for one in read_endings()):
            # A counter that stands before the last words, too, stands before every line, and is no step.
            counted = any(step.startswith("[") for step in steps)
            return line.line.number if all(step.startswith("[") and counted for step in begun - steps) else 0
        begun |= steps
    return 0


@cache
def read_work() -> re.Pattern[str]:
    return re.compile(read_toml(_TABLE)["work"]["regex"], re.MULTILINE)
