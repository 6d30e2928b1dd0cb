"""No text that a user may type, or write into a project, is taken for a fault of torchwheel."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import Run
from places import MINITORCH
from torchwheel.cli.main import COMMANDS, make_parsers
from torchwheel.settings.known_keys import Where, keys_for

# Thousands of runs.
pytestmark = pytest.mark.long

TEXTS = (
    "", " ", "0", "-1", "800000", "9" * 5000, "1.0.x", "1e999", "nan", "\u0661", "é\u202e", "{}", "%s", "a b", "'", '"',
    "[", "\n", "~nobody/x", "..", "=", "a=b", ",", ";", "9.9.9.9", "1!2", "*", "http://[", "-C", "x" * 300,
)  # fmt: skip
# These build, install, change a tree or ask the network; their settings are those of plan.
SLOW = {"adopt", "build", "get", "verify", "doctor", "completion"}


def _words(command: str, option: argparse.Action, text: str) -> Iterator[str]:
    yield command
    for action in make_parsers([command])[1][command]._actions:
        if action is not option and action.dest in ("path", "source") and not action.option_strings:
            yield str(MINITORCH)
        elif action.dest == option.dest:
            yield f"{action.option_strings[-1]}={text}" if action.option_strings else text
        elif action.required and action.nargs != "?":
            yield from (*action.option_strings[:1], str(next(iter(action.choices or ("nothing",)))))


OPTIONS = [
    (command, action)
    for command, parser in make_parsers(COMMANDS.keys() - SLOW)[1].items()
    if command not in SLOW
    for action in parser._actions
    if action.nargs != 0
]


@pytest.mark.parametrize(("command", "option"), OPTIONS, ids=lambda one: getattr(one, "dest", one))
def test_no_word_of_a_command_line(command: str, option: argparse.Action, torchwheel: Run) -> None:
    for text in TEXTS:
        torchwheel(*_words(command, option, text))


@pytest.mark.parametrize("name", [one for one in keys_for(Where.COMMAND) if one != "traceback"])
def test_no_value_of_a_setting(name: str, torchwheel: Run) -> None:
    key = keys_for(Where.COMMAND)[name]
    entry = f"{name}.{key.example.rpartition('=')[0]}" if key.table else name
    for text in TEXTS:
        words = ("plan", MINITORCH, "--platform", "win_amd64")
        torchwheel(*words, f"-C{entry}={text}")


PROJECT = """\
[build-system]
requires = ["torchwheel", "torch"]
build-backend = "torchwheel.extension.backend"
[project]
name = "ops"
version = "1.0"
dependencies = ["numpy"]
requires-python = ">=3.10"
[[tool.torchwheel.extension]]
name = "ops._C"
sources = ["op.cpp"]
stable-abi = "2.10"
"""


@pytest.mark.parametrize("value", re.findall("(?<= = ).+", PROJECT))
def test_no_value_of_a_project(
    value: str, here: Path, torchwheel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where no PyTorch is installed the index is asked.
    monkeypatch.setattr("torchwheel.cli.extension.ask_index", lambda *_: {"torch": "2.14.1"})
    (here / "op.cpp").touch()
    for text in (*TEXTS, "[1]", "3", "{}", "true", "1979-05-27"):
        quoted = "'" + text.replace("'", "\u2019").replace("\n", " ") + "'"
        (here / "pyproject.toml").write_text(
            PROJECT.replace(value, quoted if text in TEXTS else text), "utf-8"
        )
        for command in ("plan",), ("matrix", "-w", "cpu", "--torch", "2.14.1"):
            torchwheel(*command)
