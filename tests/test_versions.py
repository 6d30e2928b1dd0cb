"""Ranges of CUDA versions, held against PEP 440's reference implementation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from torchwheel.versions import read_range

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
