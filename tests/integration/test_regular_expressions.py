"""Every regular expression of a module, against lines that are made to cost much.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import re

import pytest

from regex_cost import count_steps, superlinear
from unit.test_regular_expressions import EXPRESSIONS, FROM_THE_START


@pytest.mark.parametrize("part", range(4))
def test_no_expression_takes_more_than_linear_time(part: int) -> None:
    found = {}
    for name, regex, _ in EXPRESSIONS[part::4]:
        tried = re.compile(rf"\A(?:{regex.pattern})", regex.flags) if name in FROM_THE_START else regex
        if line := superlinear(tried):
            found[name] = (regex.pattern, line)
    assert found == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w+: unbound variable",
        r"error: .*foo",
        r"^[^:]*\d+[^:]*: ",
        r"\s+$",
        r"x*y*z",
        r"(\d+)\.(\d+)",
        r"(?s)<a>.*?<b>",
        r"(a+)+b",
        r"(a|a)*b",
        r"(?:a|b|ab)*c",
        r"(?m)^build [^\n]*: C(?:XX)?_COMPILER__[^\n]*\n((?:  [^\n]*\n)*)",
    ],
)
def test_more_than_linear_time_is_found(pattern: str) -> None:
    assert superlinear(re.compile(pattern)) is not None


@pytest.mark.parametrize(
    "pattern",
    [r"\b\w+: unbound variable", r"^[a-z]+:", r"a{1,20}b", r"error: .{0,300}foo", r"^(?:ab)+c", r"(?=a)a+"],
)
def test_linear_time_is_none(pattern: str) -> None:
    assert superlinear(re.compile(pattern)) is None


def test_steps_are_the_same_each_time() -> None:
    assert {count_steps("a*b", 0, "a" * 50) for _ in range(3)} == {count_steps("a*b", 0, "a" * 50)}
    assert count_steps("a*b", 0, "a" * 50) < count_steps("a*b", 0, "a" * 100) / 3
