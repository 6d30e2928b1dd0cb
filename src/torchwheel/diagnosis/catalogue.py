"""The catalogue of known failures, ``catalogue/*.toml``, and the forms of error lines, ``error_lines.toml``.

Both ship with torchwheel and are checked by its tests.
"""

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
    )


@cache
def error_forms() -> Mapping[str, tuple[re.Pattern[str], ...]]:
    """How tools report errors, for failures that the catalogue does not know: literal to regular expressions."""
    forms: dict[str, tuple[re.Pattern[str], ...]] = {}
    for form in read_toml(_HERE / "error_lines.toml")["error"]:
        forms[form["needle"]] = (*forms.get(form["needle"], ()), re.compile(form["regex"]))
    return forms


def reports_error(text: str) -> bool:
    """Whether a cleaned line reports an error in a tool's usual form."""
    return any(
        needle in text and any(regex.search(text) for regex in regexes)
        for needle, regexes in error_forms().items()
    )
