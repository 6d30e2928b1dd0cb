"""``torchwheel doctor``: check for problems before a build."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from torchwheel.cli.request import populate_request, request_from
from torchwheel.host.this import home_folder
from torchwheel.preflight.doctor import examine_request, render_report
from torchwheel.preflight.host_file import host_file_text
from torchwheel.preflight.this_machine import read_facts
from torchwheel.reporting.errors import EXIT_REFUSED, refusal
from torchwheel.reporting.terminal import Answer, terminal_width, wants_colour
from torchwheel.survey import has_extensions


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    machine = parser.add_mutually_exclusive_group()
    described = "examine the machine that FILE describes, not this one"
    machine.add_argument("--host", metavar="FILE.toml", type=Path, help=described)
    dumped = "print this machine as such a file, fit for a bug report, and examine nothing"
    machine.add_argument("--dump-host", action="store_true", help=dumped)


def run(parsed: argparse.Namespace) -> Answer | int:
    """Print the report; the status is 2 if something in it would stop the build."""
    if parsed.dump_host:
        if parsed.json:
            raise refusal("contradiction/dump-format")
        print(host_file_text(read_facts(dict(os.environ)), home=home_folder(os.environ)), end="")
        return 0

    request = request_from(parsed)
    if has_extensions(request.project):
        # Only here, because what is said about PyTorch needs none of its modules.
        from torchwheel.cli.extension import examine_project

        examined = examine_project(request, parsed.host)
    else:
        examined = examine_request(request, parsed.host)
    return Answer(
        examined.document(),
        lambda: render_report(examined, terminal_width(), colour=wants_colour()),
        EXIT_REFUSED if examined.report.errors else 0,
    )
