"""The first screen, the help, and what is said of words that are not known."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import Run
from torchwheel import __version__
from torchwheel.cli.main import COMMANDS, SUCCESSORS, make_parsers, render_welcome


def test_without_arguments_a_newcomer_is_told_what_to_type(program: Run) -> None:
    result = program()
    shown = render_welcome(80)
    assert (result.status, result.out, result.err) == (0, shown + "\n", "")
    named = [line.split()[1] for line in shown.splitlines() if line.startswith("  torchwheel ")]
    assert named == ["gpus", "plan", "build", "--help", "COMMAND"]
    assert {"gpus", "plan", "build"} <= COMMANDS.keys()


@pytest.mark.parametrize("width", [44, 60, 80, 200])
def test_the_first_screen_is_as_wide_as_the_terminal(width: int) -> None:
    shown = render_welcome(width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.split() == render_welcome(1000).split()


def test_python_m_torchwheel_is_the_program(here: Path) -> None:
    command = [sys.executable, "-m", "torchwheel", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"torchwheel {__version__}\n"


def test_the_version(program: Run) -> None:
    assert program("--version").out == f"torchwheel {__version__}\n"


def test_every_command_is_in_the_help(torchwheel: Run) -> None:
    result = torchwheel("--help")
    assert result.status == 0
    listed = [line.split()[0] for line in result.out.splitlines() if re.match("  [a-z]", line)]
    assert listed == list(COMMANDS)
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_fits_80_columns(command: str, torchwheel: Run) -> None:
    result = torchwheel(command, "--help")
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith(f"usage: torchwheel {command} ")
    assert COMMANDS[command] in " ".join(result.out.split())
    assert [line for line in result.out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_a_module_of_that_name(command: str) -> None:
    module = importlib.import_module(f"torchwheel.cli.{command}")
    assert callable(module.populate)
    assert callable(module.run)


@pytest.mark.parametrize("former", SUCCESSORS)
def test_what_replaced_a_command_is_there(former: str) -> None:
    assert former not in COMMANDS
    command, *options = SUCCESSORS[former].split()
    assert {*options} <= make_parsers([command])[1][command]._option_string_actions.keys()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["biuld"], "'biuld'; did you mean 'build'?"),
        (["report"], "`torchwheel status --report`"),
        (["frobnicate"], "'frobnicate'\n"),
        (["plan", "nul\0"], "U+0000"),
        (["gpus", "--jason", "--zzz=1"], "'--jason'; did you mean '--json'?; there is no option '--zzz'"),
        (["--undo", "adopt", "."], "torchwheel adopt --undo"),
        (["components", "a", "b"], " b\n"),
        (["adopt"], "PATH\n"),
        (["--traceback"], "COMMAND\n"),
    ],
)
def test_unknown_words_get_the_nearest_right_one(words: list[str], named: str, torchwheel: Run) -> None:
    result = torchwheel(*words)
    usage, error = result.err.splitlines(keepends=True)
    assert (result.status, result.out, usage.startswith("usage: torchwheel ")) == (2, "", True)
    assert named in error


def test_an_interrupt_while_modules_are_imported_is_one_line() -> None:
    script = """\
import sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "torchwheel.reporting.errors":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from torchwheel.__main__ import program
sys.exit(program())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "torchwheel: interrupted\n")
