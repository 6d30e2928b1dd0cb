"""Single lines of a log: decoded and freed of what terminals, build tools and CI systems put around them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml

LONGEST_TEXT = 2000
"""Characters of a line that are looked at; compiler command lines can have ten thousand."""

_COLOUR_WITHOUT_ESCAPE = re.compile(r"\[\d{1,2}(?:;\d{1,3})*m|\[m\[K|\[K")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_MOST_PREFIXES = 8


def clean(raw: bytes) -> str:
    """A line as text: what a terminal would show last, without colours, prefixes and control characters."""
    text = raw.decode("utf-8", "replace")
    if "\r" in text:
        text = _after_overwriting(text)
    text = _COLOUR_WITHOUT_ESCAPE.sub("", text)
    text = _CONTROL.sub("", text)
    return strip_prefixes(text)[:LONGEST_TEXT].rstrip()


def strip_prefixes(text: str) -> str:
    """``text`` without the prefixes of ``prefixes.toml``; the indentation stays if there is no prefix."""
    for _ in range(_MOST_PREFIXES):
        match = _prefix().match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text


def _after_overwriting(text: str) -> str:
    """What is left after carriage returns that let a progress display write over itself."""
    segments = [segment for segment in text.split("\r") if segment.strip()]
    return segments[-1] if segments else ""


@cache
def _prefix() -> re.Pattern[str]:
    table = read_toml(Path(__file__).with_name("prefixes.toml"))
    return re.compile(r"\s*(?:" + "|".join(prefix["regex"] for prefix in table["prefix"]) + ")")
