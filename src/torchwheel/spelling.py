"""The nearest right spelling of a name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_CUTOFF = 0.7
"""Similarity below which a suggestion would mislead more than help."""
_COMPARED = 8
_DIGITS = re.compile(r"\d+")


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The one candidate most like ``name``, or None when none is like it.

    Case, underscores and hyphens do not count. One with the same numbers goes before one with others, and
    one with the same digits next: few people mistype a number alone, and who does swaps two digits.
    Give siblings only: names from elsewhere that share a long prefix all look alike.
    """
    folded = {_fold(candidate): candidate for candidate in sorted(candidates, reverse=True)}
    close = get_close_matches(_fold(name), folded, n=_COMPARED, cutoff=_CUTOFF)
    numbers = _DIGITS.findall(name)
    digits = sorted("".join(numbers))
    # The most alike come first, and stay so among those with the same numbers.
    best = sorted(
        close,
        key=lambda text: (_DIGITS.findall(text) != numbers, sorted("".join(_DIGITS.findall(text))) != digits),
    )
    return folded[best[0]] if best else None


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-")
