"""Errors as text: wrapped like every other text, and what is there to be copied stays whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.reporting.messages import number_fixes

COMMAND = "git clone --recursive https://example.org/a/repository/with/a/long/name '/my tree'"
PROBLEM = Problem(
    id="an-id",
    what="this is what is wrong, and it takes more than one line to say so",
    why="a reason that takes more than one line as well:\nquoted.cpp:1:2: error: a quotation that is not broken",
    remedy=number_fixes(["one thing to do, told in many words here", "another"]) + f"\n{COMMAND}",
    origin="-C x",
)
WRAPPED = f"""\
torchwheel: -C x: this is what is wrong,
    and it takes more than one line to
    say so  [an-id]
    why: a reason that takes more than
         one line as well:
         quoted.cpp:1:2: error: a quotation that is not broken
    fix: 1. one thing to do, told in
            many words here
         2. another
         {COMMAND}"""


def test_an_error_is_wrapped_but_for_commands_and_quotations() -> None:
    assert TorchwheelError(PROBLEM).render(40, "torchwheel: ") == WRAPPED


def test_several_problems_stand_below_their_numbers() -> None:
    lines = TorchwheelError([PROBLEM, Problem("b", "short", "do it")]).render(43, "torchwheel: ").splitlines()
    assert lines[0] == "torchwheel: 2 problems:"
    assert lines[1].startswith("1. -C x: this is")
    assert lines[-2:] == ["2. short  [b]", "       fix: do it"]
    assert all(len(line) <= 43 for line in lines if COMMAND not in line and "quoted.cpp" not in line)


def test_the_text_of_the_exception_is_not_wrapped() -> None:
    assert str(TorchwheelError(Problem("b", "word " * 40, "do it"))).count("\n") == 1


def test_what_is_printed_is_as_wide_as_other_text(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torchwheel.cli.main", "plan", str(tmp_path), "--target", "h1000"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert max(map(len, said.splitlines())) <= max(80, len(str(tmp_path)) + 20)
