"""Dotted versions, and ranges of them held against PEP 440's reference implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from torchwheel.versions import at_least, major_minor, numbers, read_range

VERSIONS = st.lists(st.integers(0, 13), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
CLAUSES = st.builds(
    lambda operator, space, version, wildcard: operator + space + version + wildcard,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="]),
    st.sampled_from(["", " "]),
    VERSIONS,
    st.sampled_from(["", "", ".*"]),
)
RANGES = st.lists(CLAUSES, max_size=3).map(",".join)


@given(RANGES, VERSIONS)
def test_it_agrees_with_packaging(text: str, version: str) -> None:
    read = read_range(text)
    try:
        expected = SpecifierSet(text)
    except InvalidSpecifier:
        assert read is None
        return
    assert read is not None
    assert read.contains(version) is expected.contains(version, prereleases=True)


@pytest.mark.parametrize("text", ["12.8", ">=", ">=12.8rc1", "=12", "12.8 or later", ">=12.*", "~=12", "≥12"])
def test_what_is_no_range(text: str) -> None:
    assert read_range(text) is None


def test_it_prints_as_it_was_written() -> None:
    assert str(read_range(">=12.8, <13")) == ">=12.8, <13"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("580.95.05", (580, 95, 5)),
        ("3.28.3-rc1", (3, 28, 3)),
        ("2.6.0a0+git1eba9b3", (2, 6, 0)),
        ("2.14.1+cu130.sm120", (2, 14, 1)),
        ("9.24.0.43", (9, 24, 0, 43)),
        ("13", (13,)),
        ("main", ()),
        ("v2.6", ()),
        ("", ()),
    ],
)
def test_numbers(version: str, expected: tuple[int, ...]) -> None:
    assert numbers(version) == expected
    assert numbers(version, 2) == ((*expected, 0)[:2] if expected else ())


def test_missing_numbers_count_as_zeros() -> None:
    assert at_least("580", "580.0")
    assert at_least("580.0", "580")
    assert at_least("3.10", "3.9")
    assert not at_least("12.2.0", "12.2.1")
    assert not at_least("12", "12.1")


def test_major_minor() -> None:
    assert [major_minor(text) for text in ("12.9.86", "12.9", "13", "2.14.1+cu130")] == [
        "12.9",
        "12.9",
        "13",
        "2.14",
    ]
