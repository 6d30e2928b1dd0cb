"""The catalogue of known failures, ``catalogue/*.toml``: what torchwheel ships, checked by its tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.diagnosis.model import Entry, Pattern, Phase, frozen

_HERE = Path(__file__).parent


@cache
def catalogue() -> tuple[Entry, ...]:
    """All known failures, in the order of their files."""
    paths = sorted((_HERE / "catalogue").glob("*.toml"))
    return tuple(_entry(table) for path in paths for table in read_toml(path)["entry"])


def _entry(table: Mapping[str, Any]) -> Entry:
    return Entry(
        id=table["id"],
        title=table["title"],
        phase=Phase(table["phase"]),
        rank=table["rank"],
        patterns=tuple(Pattern(one["needle"], re.compile(one["regex"])) for one in table["patterns"]),
        context=tuple(map(re.compile, table.get("context", ()))),
        details=tuple(map(re.compile, table.get("details", ()))),
        otherwise=frozen(table.get("otherwise", {})),
        means=table["means"],
        change=tuple(table["change"]),
        applies=frozen(table.get("applies", {})),
        links=tuple(table["links"]),
        causes=frozenset(table.get("causes", ())),
        memory=table.get("memory", ""),
    )
