"""Dotted versions, and ranges of them held against PEP 440's reference implementation.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from torchwheel.versions import is_satisfiable

KINDS = (
    "",
    ".dev0",
    ".dev1",
    "a0",
    "a1",
    "a1.post0",
    "b1",
    "rc1",
    "rc1.dev0",
    ".post0",
    ".post1",
    ".post1.dev0",
    "+x",
)
RELEASES = ("0", "1", "1.0", "1.0.1", "1.1", "2", "2.9", "2.10", "2.10.1", "2.11", "3", "1!0", "1!2.10")
BETWEEN = (
    "0.0.0.1", "0.5", "1.0.0.0.1", "1.0.1.1", "1.0.5", "1.1.1", "1.5", "2.0.0.1", "2.5", "2.9.5", "2.10.0.0.1",
    "2.10.1.1", "2.10.2", "2.10.5", "2.11.5", "2.12", "3.5", "4", "4.5", "1!0.0.1", "1!1", "1!1.5", "1!2.10.0.1",
    "1!2.10.5", "1!2.11", "1!2.12", "1!3", "1!9",
)  # fmt: skip
POOL = [
    *(Version(f"{release}{kind}") for release in (*RELEASES, *BETWEEN) for kind in KINDS),
    *(
        Version(f"{release}{pre}{post}{dev}")
        for release in RELEASES
        for pre in ("", "a0", "a1", "a2", "b0", "b1", "b2", "rc0", "rc1", "rc2")
        for post in ("", ".post0", ".post1", ".post2")
        for dev in ("", ".dev0", ".dev1", ".dev2")
    ),
]
"""Versions of every kind at, between and beyond those that the tests name."""


@st.composite
def _specifier(draw: st.DrawFn) -> str:
    operator = draw(st.sampled_from([">=", "<=", ">", "<", "==", "!=", "~=", "==.*", "!=.*"]))
    release = draw(st.sampled_from(RELEASES))
    if operator.endswith(".*"):
        return f"{operator[:2]}{release}.*"
    if operator == "~=":
        return f"~={release if '.' in release else release + '.0'}{draw(st.sampled_from(KINDS[:-1]))}"
    return operator + release + draw(st.sampled_from(KINDS if operator in ("==", "!=") else KINDS[:-1]))


SPECIFIERS = st.lists(_specifier(), min_size=1, max_size=5).map(",".join)


@settings(max_examples=300)
@given(SPECIFIERS)
def test_what_is_satisfiable_is_what_any_version_satisfies(text: str) -> None:
    """Against all versions of a pool, which has one of every kind in every gap between releases."""
    found = SpecifierSet(text)
    assert is_satisfiable(found) is any(found.contains(version, prereleases=True) for version in POOL)
