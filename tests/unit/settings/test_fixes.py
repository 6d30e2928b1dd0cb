"""A fix, applied as it is written, leads on: nothing of what was written is lost, and the same is not said again."""

from __future__ import annotations

import re

import pytest

from settings.loading import Load, Refuse
from torchwheel.reporting.errors import Problem

HEAD = "[tool.torchwheel]\n"


def applied(text: str, problem: Problem) -> str:
    """The text, changed as the fix says."""
    if line := re.match(r'write ((\S+) = (?:"[^"]*"|[^,]*))', problem.remedy):
        return re.sub(rf"^{line[2]} = .*$", line[1], text, flags=re.MULTILINE)
    name = re.search('"([^"]+)"', problem.what)
    right = re.match('(?:write|did you mean) "?([^"?(]+[^"?( ])', problem.remedy)
    assert name and right
    return text.replace(name[1], right[1])


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('target = "a100 t4"', {"a100", "t4"}),
        ('target = "rtx5071"', set()),
        ('architecture = "12.0"', {"12.0"}),
        ('architectures = "12.0"', {"12.0"}),
        ('targets = ["a100"]', {"a100"}),
        ("arch = 12.0", {"12.0"}),
        ("cuda = 13.0", {"13.0"}),
        ('jobs = "4"', {"4"}),
        ('traceback = "true"', {"true"}),
        ('disable = "USE_NCCL"', set()),
        ('disable = "ncll"', set()),
        ('profile = "minimum"', set()),
    ],
)
def test_a_fix_in_pyproject(written: str, kept: set[str], load: Load, refuse: Refuse) -> None:
    (problem,) = refuse(pyproject=HEAD + written)
    fixed = applied(written, problem)
    assert fixed != written
    assert all(text in fixed for text in kept)
    load(pyproject=HEAD + fixed)


@pytest.mark.parametrize(
    ("key", "value"), [("taget", "rtx5070"), ("target", "a100 t4"), ("job", "4"), ("disable", "USE_NCCL")]
)
def test_a_fix_on_the_command_line(key: str, value: str, load: Load, refuse: Refuse) -> None:
    (problem,) = refuse(config={key: value})
    if option := re.search(r"-C (\S+)=([^\s?]+)", problem.remedy):
        assert option[2] == value
        load(config={option[1]: option[2]})
    else:
        load(config={key: applied(value, problem)})
