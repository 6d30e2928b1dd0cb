"""Finding the release that a version belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.pytorch.version import nearest_patch

KNOWN = ["2.6.0", "2.7.0", "2.7.1", "2.10.0", "2.14.1", "2.14.3"]


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("2.7.1", "2.7.1"),
        ("2.7.1+cu128", "2.7.1"),
        ("2.7.0a0+git1eba9b3", "2.7.0"),
        ("2.7", "2.7.1"),
        ("2.7+cu128.sm120", "2.7.1"),
        ("2.7.9", "2.7.1"),
        ("2.14.0", "2.14.1"),
        ("2.14.2", "2.14.1"),
        ("2.10", "2.10.0"),
        ("2.1", None),
        ("3.0", None),
        ("nightly", None),
    ],
)
def test_nearest_patch(version: str, nearest: str | None) -> None:
    assert nearest_patch(version, KNOWN) == nearest


@given(
    st.integers(0, 20),
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=12),
    st.integers(0, 3),
)
def test_the_nearest_patch_is_the_last_not_later(asked: int, known: set[tuple[int, int]], minor: int) -> None:
    versions = [f"2.{known_minor}.{patch}" for known_minor, patch in known]
    search = [*range(asked, -1, -1), *range(asked + 1, 13)]
    expected = next((patch for patch in search if (minor, patch) in known), None)
    result = nearest_patch(f"2.{minor}.{asked}", versions)
    assert result == (None if expected is None else f"2.{minor}.{expected}")
