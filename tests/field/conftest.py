"""What the tests of the field say about themselves."""

from __future__ import annotations

from field import combinations
from field.session import FULL, SEED, choose_combinations


def pytest_report_header() -> list[str]:
    """The seed, what is tried, and what this machine cannot try."""
    factors, absent = combinations.make_factors()
    tried = choose_combinations()
    count = combinations.count_pairs(tried)
    every = combinations.count_pairs(combinations.make_pairs(factors, SEED))
    what = "FIELD=full" if FULL else "FIELD=short"
    summary = (
        f"field: {what} FIELD_SEED={SEED}, {len(tried)} combinations with {count} of {every} pairs of levels"
    )
    return [summary, f"field: Python {', '.join(factors['python'])}", *(f"field: {line}" for line in absent)]
