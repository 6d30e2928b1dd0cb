"""The JSON documents that commands print; ``schemas/COMMAND.schema.json`` describes each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from torchwheel.errors import Problem, TorchwheelError

SCHEMA_VERSION = 1
"""Grows with every incompatible change of any document."""


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON document instead of text")


def print_document(command: str, **content: Any) -> None:
    """Print the document of a command: its content below the version of its shape and the command's name."""
    print(json.dumps({"schema": SCHEMA_VERSION, "command": command, **content}, indent=2))


class AlreadyPrinted(TorchwheelError):
    """An error of which the document that was printed tells."""


def print_problems(command: str, problems: Iterable[Problem]) -> None:
    """Print the document of a command that failed; ``schemas/problems.schema.json`` describes it."""
    print_document(command, ok=False, problems=[vars(problem) for problem in problems])
