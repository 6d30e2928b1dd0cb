"""The nearest right spelling of a name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_CUTOFF = 0.65
"""Similarity below which a suggestion would mislead more than help."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The one candidate most like ``name``, or None when none is like it.

    Case, underscores and hyphens do not count. Give siblings only: names from elsewhere that share a long
    prefix all look alike.
    """

    folded = {_fold(candidate): candidate for candidate in sorted(candidates, reverse=True)}
    matches = difflib.get_close_matches(_fold(name), folded, n=1, cutoff=_CUTOFF)
    return folded[matches[0]] if matches else None


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-")
