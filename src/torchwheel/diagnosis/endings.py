"""The last words of work that went well (``endings.toml``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.diagnosis.failures import LogLine
from torchwheel.system.toml import read_toml

_TABLE = Path(__file__).with_name("endings.toml")
_COUNTER = re.compile(r"(?:^|\s)\[ *\d{1,6}(?:/\d{1,6}|%)\] (?!RUN|COPY|FROM|ADD)")


@dataclass(frozen=True)
class Ending:
    """A form of words of success.

    Attributes:
        needle: a literal of the line; empty for one that is looked for at the end of the log only.
        settles: what of earlier failures did not matter: ``build`` those of builds, ``all``; empty for nothing.
    """

    example: str
    regex: re.Pattern[str]
    needle: str
    settles: str


@cache
def read_endings() -> tuple[Ending, ...]:
    return tuple(
        Ending(row["example"], re.compile(row["regex"], re.M), row.get("needle", ""), row.get("settles", ""))
        for row in read_toml(_TABLE)["ending"]
    )


def settles(text: str, needles: Iterable[str]) -> str:
    """What a line settles that says that the whole work went well; empty for any other."""
    ways = (one for one in read_endings() if one.settles and one.needle in needles)
    return next((one.settles for one in ways if one.regex.search(text.strip())), "")


def last_ending(lines: Sequence[tuple[str, LogLine]]) -> int:
    """Return the number of the last line that says that work went well; 0 if none does or other work followed."""
    begun: set[str] = set()
    for plain, line in reversed(lines):
        text = f"{plain.strip()}\n{line.text.strip()}"
        steps = {match[0] for match in read_work().finditer(text)}
        if any(one.regex.search(text) for one in read_endings()):
            # A counter that stands before the last words, too, stands before every line, and is no step.
            counted = any(step.startswith("[") for step in steps)
            return line.number if all(step.startswith("[") and counted for step in begun - steps) else 0
        begun |= steps
    return 0


def last_step(lines: Sequence[tuple[str, LogLine]]) -> int:
    """Return the number of the last line with a counter of steps, such as ``[158/337]``; 0 if there is none."""
    counted = (line.number for plain, line in lines if _COUNTER.search(f"{plain}\n{line.text}"))
    return max(counted, default=0)


@cache
def read_work() -> re.Pattern[str]:
    return re.compile(read_toml(_TABLE)["work"]["regex"], re.MULTILINE)
