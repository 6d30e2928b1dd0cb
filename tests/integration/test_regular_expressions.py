"""Every regular expression of a module, against lines that are made to cost much.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import re

import pytest

from regex_cost import superlinear
from unit.test_regular_expressions import EXPRESSIONS, FROM_THE_START


@pytest.mark.parametrize("part", range(4))
def test_no_expression_takes_more_than_linear_time(part: int) -> None:
    found = {}
    for name, regex, _ in EXPRESSIONS[part::4]:
        tried = re.compile(rf"\A(?:{regex.pattern})", regex.flags) if name in FROM_THE_START else regex
        if line := superlinear(tried):
            found[name] = (regex.pattern, line)
    assert found == {}
