"""``torchwheel``: finds the command, parses its arguments, and runs it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from torchwheel._version import __version__
from torchwheel.reporting.errors import (
    AlreadyPrinted,
    Problem,
    find_nearest,
    problems_of,
    report_errors,
    traceback_wanted,
)
from torchwheel.reporting.messages import settings_written_as
from torchwheel.reporting.terminal import (
    Answer,
    format_facts,
    format_table,
    log_decisions,
    open_standard_streams,
    print_document,
    show,
    wrap_paragraph,
)

GROUPS = {
    "Build": {
        "plan": "print what a build would do, without doing it",
        "build": "build a wheel for named hardware",
        "get": "use a wheel that was built before, or an official one, and build only if neither fits",
        "doctor": "check for problems before a build",
        "status": "show running builds and how the last one ended; --report: its time and memory in HTML",
        "diagnose": "find the cause in the log of a failed build",
    },
    "Wheels": {
        "inspect": "show what a wheel holds, and which GPUs it runs on",
        "verify": "prove that a wheel is what it says, and that it works here",
        "diff": "show what differs between two wheels, or a wheel and an installed torch",
    },
    "Fleet": {
        "index": "make a site of wheels, from which every machine takes its own",
        "matrix": "print the jobs of a fleet as JSON, for a CI service or a shell",
    },
    "Reference": {
        "gpus": "list the known GPUs",
        "toolkits": "list CUDA toolkits: installed, and on PyPI",
        "components": "list the parts of a source tree that can be enabled and disabled",
        "explain": "explain a message by the ID in [brackets] after it",
    },
    "Maintenance": {
        "cache": "list and remove what torchwheel keeps on the disk",
        "adopt": "make a PyTorch source tree build through torchwheel, or undo that",
        "schema": "print the JSON schema of a document, or of the table in pyproject.toml",
        "completion": "print a completion script for your shell",
    },
}
SUCCESSORS = {
    "configure": "build --configure-only",
    "extension": "plan",
    "report": "status --report",
    "targets": "gpus",
}
"""Former commands, and what replaced them."""

_WITHOUT_JSON = frozenset({"completion", "matrix", "plan", "schema"})
"""Commands that print no document, nothing else, or one of several forms."""

COMMANDS = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}

_START = (
    ("  torchwheel gpus 5070", "the name of your GPU as a target"),
    (
        "  torchwheel plan PATH --target rtx5070",
        "what a build would do; it takes no GPU, no CUDA and no time",
    ),
    ("  torchwheel build PATH --target rtx5070", "the wheel, in dist/"),
)
_HELP = (
    ("  torchwheel --help                     ", "all commands"),
    ("  torchwheel COMMAND --help", "one of them"),
)

EXIT_STATUSES = (
    "exit status: 0 success; 1 the build failed; 2 the request is wrong, or this machine cannot do it, and nothing was "
    "built; 3 what was built, or is inspected, is not what was planned"
)
EXIT_OUTPUT_CLOSED = 141
"""What a shell shows for a program that SIGPIPE ended: 128 + 13."""


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        open_standard_streams()
    words = sys.argv[1:] if arguments is None else list(arguments)
    options: dict[str, str] = {}
    with settings_written_as(lambda key, entry: "" if entry else options.get(key, "")), report_errors():
        try:
            try:
                return _run(words, options)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # `torchwheel gpus | head`. What is left in the buffer would fail once more when Python ends:
            # https://docs.python.org/3/library/signal.html#note-on-sigpipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return EXIT_OUTPUT_CLOSED


def _run(words: Sequence[str], options: dict[str, str]) -> int:
    """Run the command; ``options`` is filled with what a setting is written as on its command line."""
    if not words:
        print(render_welcome())
        return 0
    parsed = parse_command(words)
    log_decisions(getattr(parsed, "verbose", 0))
    settings = dict(item.partition("=")[::2] for item in getattr(parsed, "config_settings", ()))
    declared = getattr(parsed, "setting_options", ())
    options |= {name: f"--{name} " for name in declared if name not in settings}
    if parsed.traceback or ("traceback" in settings and traceback_wanted(settings)):
        os.environ["TORCHWHEEL_TRACEBACK"] = "1"
    try:
        answer: Answer | int = importlib.import_module(f"torchwheel.cli.{parsed.command}").run(parsed)
        if isinstance(answer, int):
            return answer
        if parsed.json:
            print_document(parsed.command, **answer.document)
        elif text := answer.text():
            show(text)
        return answer.status
    except (AlreadyPrinted, BrokenPipeError):
        raise
    except Exception as error:
        if getattr(parsed, "json", False):
            print_document(parsed.command, ok=False, problems=list(map(vars, problems_of(error))))
        raise


class _StoreOnce(argparse._StoreAction):
    """An option with one value: a second, different one is an error, where argparse keeps the last."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given = vars(namespace).setdefault("given_options", {})
        if option_string and given.setdefault(self.dest, values) != values:
            raise argparse.ArgumentError(self, f"is {given[self.dest]}, but also {values}; give it once")
        super().__call__(parser, namespace, values, option_string)


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are JSON documents too where those are asked for."""

    json_wanted = False

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        # What argparse itself takes for an argument that names no action.
        self.register("action", None, _StoreOnce)

    def error(self, message: str) -> NoReturn:
        if self.json_wanted:
            problem = Problem.of("wrong-usage", what=message, program=self.prog)
            print_document(self.prog.partition(" ")[2], ok=False, problems=[vars(problem)])
        super().error(message)


def render_welcome(width: int | None = None) -> str:
    parts = (
        wrap_paragraph("torchwheel builds PyTorch and its CUDA kernels for your own hardware.", width),
        "Three commands to start with:",
        format_table(_START[0], _START[1:], width),
        wrap_paragraph("PATH is a PyTorch source tree. Without a GPU, the target is cpu.", width),
        format_table(_HELP[0], _HELP[1:], width),
    )
    return "\n\n".join(parts)


def _render_groups() -> str:
    size = max(map(len, COMMANDS))
    tables = [
        f"{title}:\n" + format_facts((f"  {name:{size}}", text) for name, text in commands.items())
        for title, commands in GROUPS.items()
    ]
    return "\n\n".join([*tables, wrap_paragraph(EXIT_STATUSES)])


def make_parsers(populated: Collection[str], *, listed: bool = False) -> tuple[_Parser, dict[str, _Parser]]:
    """The program's parser and those of its commands, by name.

    Args:
        populated: the commands whose arguments are declared, which imports their modules.
        listed: argparse's own list of commands, which completion reads, beside that in groups.
    """
    parser = _Parser(
        prog="torchwheel",
        description="Build PyTorch and its CUDA kernels for your own hardware.",
        epilog=_render_groups(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"torchwheel {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show Python's traceback after an error")
    group = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="command", required=True, prog=parser.prog, help="see below"
    )
    by_name = {}
    for name, summary in COMMANDS.items():
        # argparse lists a command only if it is given a help at all.
        shown: dict[str, Any] = {"help": summary} if listed else {}
        by_name[name] = group.add_parser(name, description=summary, allow_abbrev=False, **shown)
        if name in populated:
            importlib.import_module(f"torchwheel.cli.{name}").populate(by_name[name])
            if name not in _WITHOUT_JSON:
                document = "print a JSON document instead of text"
                by_name[name].add_argument("--json", action="store_true", help=document)
    return parser, by_name


def parse_command(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; of the commands' modules only that of the one in it is imported.

    Raises:
        SystemExit: status 2 after an unknown word, 0 after ``--help`` and ``--version``.
    """
    # The program's own options take no values, so the first other word is the command.
    command = next((word for word in words if not word.startswith("-")), "")
    parser, by_name = make_parsers({command} & COMMANDS.keys())
    parser.json_wanted = "--json" in words
    if command in by_name:
        by_name[command].json_wanted = "--json" in words
    if command in SUCCESSORS:
        parser.error(f"the command '{command}' is now `torchwheel {SUCCESSORS[command]}`")
    if command and command not in COMMANDS:
        parser.error(f"there is no command '{command}'{_suggest_instead(command, COMMANDS)}")
    if "\0" in "".join(words):
        parser.error("an argument holds the character U+0000")
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        chosen = by_name[parsed.command]
        options = [_unknown_option(chosen, word) for word in unknown if word.startswith("-")]
        chosen.error("; ".join(options) or f"there is no argument for {' '.join(unknown)}")
    return parsed


def _suggest_instead(word: str, known: Collection[str]) -> str:
    meant = find_nearest(word, known)
    return f"; did you mean '{meant}'?" if meant else ""


def _unknown_option(chosen: argparse.ArgumentParser, word: str) -> str:
    name = word.partition("=")[0]
    if name in chosen._option_string_actions:
        return f"'{name}' belongs behind the command: {chosen.prog} {name}"
    return f"there is no option '{name}'{_suggest_instead(name, chosen._option_string_actions)}"


if __name__ == "__main__":
    sys.exit(main())
