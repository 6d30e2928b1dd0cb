"""The argument parsers, and what is said of words that they do not know."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Collection, Mapping, Sequence

from torchwheel import __version__
from torchwheel.settings.spelling import nearest

Parsers = tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]


def make_parsers(commands: Mapping[str, str], populated: Collection[str]) -> Parsers:
    """The program's parser and those of its commands, by name.

    Args:
        commands: the summary of each command.
        populated: the commands whose arguments are declared, which imports their modules.
    """
    parser = argparse.ArgumentParser(
        prog="torchwheel",
        description="Build PyTorch and its CUDA kernels for your own hardware.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"torchwheel {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show Python's traceback after an error")
    group = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, prog=parser.prog
    )
    by_name = {}
    for name, summary in commands.items():
        by_name[name] = group.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name in populated:
            importlib.import_module(f"torchwheel.cli.{name}").populate(by_name[name])
    return parser, by_name


def parse(words: Sequence[str], commands: Mapping[str, str]) -> argparse.Namespace:
    """Parse a command line; only the module of the command that is in it is imported.

    Raises:
        SystemExit: status 2 after a word that is not known, 0 after ``--help`` and ``--version``.
    """
    # The program's own options take no values, so the first other word is the command.
    command = next((word for word in words if not word.startswith("-")), "")
    # A parser takes half a millisecond to make, and those of other commands are there for the list of commands only.
    asked = {command: commands[command]} if words[:1] == [command] and command in commands else commands
    parser, by_name = make_parsers(asked, {command} & commands.keys())
    if command and command not in commands:
        parser.error(f"there is no command '{command}'{_instead(command, commands)}")
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        chosen = by_name[parsed.command]
        options = [_unknown_option(chosen, word) for word in unknown if word.startswith("-")]
        chosen.error("; ".join(options) or f"there is no argument for {' '.join(unknown)}")
    return parsed


def _instead(word: str, known: Collection[str]) -> str:
    meant = nearest(word, known)
    return f"; did you mean '{meant}'?" if meant else ""


def _unknown_option(chosen: argparse.ArgumentParser, word: str) -> str:
    name = word.partition("=")[0]
    return f"there is no option '{name}'{_instead(name, chosen._option_string_actions)}"
