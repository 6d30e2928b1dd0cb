"""Regular expressions that come from data: compiled, and refused where they could hurt."""

from __future__ import annotations

import re

# A repeated group that itself ends in a repetition, such as (a+)+: the shape behind exponential time.
_NESTED_QUANTIFIER = re.compile(r"(?<!\\)[*+}]\)[*+{]")
_UNBOUNDED = re.compile(r"(?<!\\)(?:\.|\[[^\]]+\])[*+]")
_MOST_UNBOUNDED = 4


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression of the catalogue.

    Raises:
        ValueError: it is malformed, matches the empty string, or can take exponential time.
    """
    try:
        regex = re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    if regex.search("") is not None:
        raise ValueError("matches the empty string")
    if _NESTED_QUANTIFIER.search(text):
        raise ValueError("repeats a group that ends in a repetition, which can take exponential time")
    if len(_UNBOUNDED.findall(text)) > _MOST_UNBOUNDED:
        raise ValueError(f"has more than {_MOST_UNBOUNDED} unbounded repetitions; write .{{0,200}} for .*")
    return regex


def check_needle(text: str) -> None:
    """Check a literal for the fast search.

    Raises:
        ValueError: it is too short to be telling, or not ASCII and so encoded in several ways.
    """
    if len(text) < 4:
        raise ValueError(f"the needle {text!r} is shorter than 4 characters")
    if not text.isascii():
        raise ValueError(f"the needle {text!r} holds other characters than ASCII")
