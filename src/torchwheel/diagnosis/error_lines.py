"""Lines that report an error in a tool's usual form, for failures that the catalogue does not know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml


@cache
def error_forms() -> Mapping[str, tuple[re.Pattern[str], ...]]:
    """Needle to regular expressions, from ``error_lines.toml``."""
    forms: dict[str, tuple[re.Pattern[str], ...]] = {}
    for form in read_toml(Path(__file__).with_name("error_lines.toml"))["error"]:
        forms[form["needle"]] = (*forms.get(form["needle"], ()), re.compile(form["regex"]))
    return forms


def reports_error(text: str) -> bool:
    """Whether a cleaned line reports an error."""
    return any(
        needle in text and any(regex.search(text) for regex in regexes)
        for needle, regexes in error_forms().items()
    )
