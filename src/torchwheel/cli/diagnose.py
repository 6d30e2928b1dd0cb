"""``torchwheel diagnose``: the first cause in the log of a failed build."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from torchwheel.diagnosis.diagnosis_page import render, to_dict
from torchwheel.diagnosis.facts import Facts
from torchwheel.diagnosis.failures import Diagnosis, Outcome
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.host.this import cache_folder
from torchwheel.progress.build_record import LAST_BUILD
from torchwheel.reporting.errors import EXIT_FAILED, EXIT_NOT_PROVED, refusal
from torchwheel.reporting.terminal import Answer, terminal_width, wants_colour
from torchwheel.system.paths import is_file


def populate(parser: argparse.ArgumentParser) -> None:
    which = "a log file, or - for standard input (default: the last build's)"
    parser.add_argument("log", nargs="?", metavar="LOG", help=which)
    parser.add_argument("--all", action="store_true", help="show the fixes for rarer cases, too")
    parser.epilog = (
        "The exit status is 0 if the log ends with words of success, 1 if it shows a failure, 3 if it shows neither, "
        "and 2 if it is no log: empty, or not a text."
    )


def run(parsed: argparse.Namespace) -> Answer:
    """Read the log; the status is 0 for success, 1 for a failure, 3 if neither is known."""
    log = parsed.log or str(last_log(os.environ))
    diagnosis = _read(log, Facts(platform.system()) if parsed.log is None else None)
    if diagnosis.outcome is Outcome.NO_LOG:
        raise refusal("no-log" if diagnosis.is_empty else "no-log/binary", origin=log)
    width = terminal_width() if sys.stdout.isatty() else None
    head = "" if parsed.log else f"{log}\n\n"
    return Answer(
        {"log": log, "diagnosis": to_dict(diagnosis)},
        lambda: head + render(diagnosis, width, colour=wants_colour(), every_fix=parsed.all),
        {Outcome.SUCCEEDED: 0, Outcome.FAILED: EXIT_FAILED}.get(diagnosis.outcome, EXIT_NOT_PROVED),
    )


def last_log(environment: Mapping[str, str]) -> Path:
    note = cache_folder(environment) / LAST_BUILD
    log = Path(note.read_text(encoding="utf-8").strip()) if is_file(note) else None
    if log is None or not is_file(log):
        raise refusal("no-last-build/deleted" if log else "no-last-build", origin=note, log=log)
    return log


def _read(log: str, facts: Facts | None) -> Diagnosis:
    if log == "-":
        return diagnose(sys.stdin.buffer, facts=facts)
    try:
        with Path(log).open("rb") as stream:
            return diagnose(stream, facts=facts)
    except OSError as error:
        raise refusal("unreadable-log", origin=log, reason=error.strerror) from None
