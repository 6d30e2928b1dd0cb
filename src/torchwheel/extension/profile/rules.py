"""The rules of ``advice.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.extension.model import Language


@dataclass(frozen=True)
class Rule:
    """One way to compile faster; ``advice.toml`` says what the fields mean."""

    id: str
    kind: str
    title: str
    text: str
    elsewhere: str
    source: str
    language: Language | None
    headers: tuple[str, ...]
    exceptions: tuple[str, ...]
    instead: tuple[str, ...]
    moved: tuple[str, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Rules:
    """All rules, and what a change has to save at least to be told.

    Attributes:
        rules: in the file's order.
        least_part: of the time of all compiles, from 0 to 1.
        least_seconds: in seconds.
    """

    rules: tuple[Rule, ...]
    least_part: float
    least_seconds: float


@cache
def shipped_rules() -> Rules:
    """The shipped rules, read once."""
    data = read_toml(Path(__file__).with_name("advice.toml"))
    least = data["least"]
    return Rules(tuple(_rule(table) for table in data["rule"]), float(least["part"]), float(least["seconds"]))


def _rule(table: Mapping[str, Any]) -> Rule:
    def words(key: str) -> tuple[str, ...]:
        return tuple(table.get(key, ()))

    return Rule(
        id=table["id"],
        kind=table["kind"],
        title=table["title"],
        text=table["text"],
        elsewhere=table["elsewhere"],
        source=table["source"],
        language=Language(table["language"]) if "language" in table else None,
        headers=words("headers"),
        exceptions=words("except"),
        instead=words("instead"),
        moved=words("moved"),
        flags=words("flags"),
    )
