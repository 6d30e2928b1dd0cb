"""``torchwheel``: finds the command, parses its arguments, and runs it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from torchwheel.cli.output import quiet_when_output_closes
from torchwheel.cli.parsers import parse
from torchwheel.cli.welcome import WELCOME
from torchwheel.reporting import report_errors, traceback_wanted

COMMANDS = {
    "plan": "print what a build would do, without doing it",
    "build": "build a wheel for named hardware from a PyTorch source tree",
    "configure": "run CMake's configuring only, and prove that it took what was asked",
    "adopt": "make a PyTorch source tree build through torchwheel, or undo that",
    "inspect": "show what a wheel holds, and which GPUs it runs on",
    "doctor": "everything that would stop or spoil a build, before it starts",
    "lint": "hold all targets against every CUDA toolkit and PyTorch release",
    "extension": "show what building extensions does, and what compiling them costs",
    "diagnose": "find the cause in the log of a failed build",
    "explain": "explain a rule or a diagnosis by its id",
    "gpus": "list the known GPUs",
    "targets": "list the targets and profiles that overlays describe",
    "toolkits": "list the CUDA toolkits that are here, and those that PyPI offers",
    "components": "list the parts of a source tree that can be enabled and disabled",
    "completion": "print a completion script for your shell",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is returned.

    Args:
        arguments: the command line without the program's name; ``sys.argv`` if None.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    with report_errors(), quiet_when_output_closes():
        if not words:
            print(WELCOME, end="")
            return 0
        parsed = parse(words, COMMANDS)
        settings = dict(item.partition("=")[::2] for item in getattr(parsed, "config_settings", ()))
        if parsed.traceback or ("traceback" in settings and traceback_wanted(settings)):
            os.environ["TORCHWHEEL_TRACEBACK"] = "1"
        status: int = importlib.import_module(f"torchwheel.cli.{parsed.command}").run(parsed)
        return status


if __name__ == "__main__":
    sys.exit(main())
