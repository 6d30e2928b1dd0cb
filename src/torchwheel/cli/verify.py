"""``torchwheel verify``: whether a wheel is what it says, and works here."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from torchwheel.proof import Check, CheckOutcome
from torchwheel.reporting.terminal import (
    Answer,
    fields_of,
    format_facts,
    paint,
    show,
    terminal_width,
    wants_colour,
)
from torchwheel.verification.claims import run_checks
from torchwheel.wheel.contents import inspect_wheel

_WORDS = {
    CheckOutcome.PASSED: ("ok", "ok"),
    CheckOutcome.FAILED: ("failed", "error"),
    CheckOutcome.NOT_TRIED: ("not tried", "note"),
}
"""The word for an outcome, and its style."""

_EPILOG = """\
The exit status is 0 where nothing is wrong, 1 where the wheel cannot be
installed, imported or run, 2 for a wrong command line, and 3 where
it is not what it says, or cannot be tried here.
"""


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "wheel", metavar="WHEEL", help="a wheel, or the folder of an installed package (site-packages/torch)"
    )
    parser.add_argument(
        "--no-install",
        action="store_false",
        dest="install",
        help="check the contents alone; otherwise the wheel is installed in a temporary environment, "
        "imported and run",
    )
    parser.add_argument(
        "--with",
        metavar="PACKAGE",
        action="append",
        default=[],
        dest="more",
        help="a wheel or requirement that is installed with it, such as the torch of an extension; may be repeated",
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG


def run(parsed: argparse.Namespace) -> Answer:
    """Run the checks, and show each as it ends; the status is that of the first that failed."""
    contents = inspect_wheel(Path(parsed.wheel))
    environment = dict(os.environ)
    done: list[Check] = []
    with redirect_stdout(sys.stderr if parsed.json else sys.stdout):
        if not parsed.json:
            show(format_facts([(f"{contents.kind:<13}", str(contents.path))]))
        for check in run_checks(contents, environment, install=parsed.install, more=parsed.more):
            done.append(check)
            if not parsed.json:
                _show(check, str(contents.path))
    problems = [problem for check in done for problem in check.problems]
    status = problems[0].status if problems else 0
    document = {
        "path": str(contents.path),
        **fields_of(contents, "kind", "name", "version"),
        "ok": not problems,
        "checks": [
            {
                **fields_of(check, "name", "outcome", "said"),
                "figures": dict(check.figures),
                "problems": list(map(vars, check.problems)),
                "notes": list(map(vars, check.notes)),
            }
            for check in done
        ],
    }
    return Answer(document, str, status)


def _show(check: Check, path: str) -> None:
    word, style = _WORDS[check.outcome]
    head = f"{check.name:<13}  {word:<9}"
    text = head.rstrip() if check.problems else format_facts([(head, check.said)])
    show(text.replace(word, paint(word, style, wants_colour()), 1))
    for head, problems in (("", check.problems), ("note: ", check.notes)):
        for problem in problems:
            if problem.origin == path:
                problem = replace(problem, origin="")
            show("\n".join(f"    {line}" for line in problem.lines(terminal_width() - 4, head)))
