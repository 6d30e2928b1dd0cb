"""``torchwheel``: finds the command, parses its arguments, and runs it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from torchwheel import __version__
from torchwheel.cli.report import told_to_user

COMMANDS = {
    "plan": "print what a build would do, without doing it",
    "build": "build a wheel for named hardware from a PyTorch source tree",
    "configure": "run CMake's configuring only, and prove that it took what was asked",
    "adopt": "make a PyTorch source tree build through torchwheel, or undo that",
    "inspect": "show what a wheel holds, and for which GPUs",
    "targets": "list the targets: GPUs, overlays and profiles",
    "components": "list the parts of a source tree that can be enabled and disabled",
}


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchwheel",
        description="Build PyTorch and its CUDA kernels for your own hardware.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"torchwheel {__version__}")
    parser.add_argument("--traceback", action="store_true", help="show Python's traceback after an error")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        if name == chosen:
            importlib.import_module(f"torchwheel.cli.{name}").populate(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is returned.

    Args:
        arguments: the command line without the program's name; ``sys.argv`` if None.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Only the chosen command's module is imported: a plan must be quick.
    chosen = next((word for word in words if word in COMMANDS), None)
    parsed = _parser(chosen).parse_args(words)
    if parsed.traceback:
        os.environ["TORCHWHEEL_TRACEBACK"] = "1"
    with told_to_user():
        status: int = importlib.import_module(f"torchwheel.cli.{parsed.command}").run(parsed)
        return status
    raise AssertionError("unreachable")


if __name__ == "__main__":
    sys.exit(main())
