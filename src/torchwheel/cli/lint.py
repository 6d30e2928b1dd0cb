"""``torchwheel lint``: all targets against all CUDA toolkits and PyTorch releases, for CI without CUDA."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchwheel.cli.request import existing_folder
from torchwheel.preflight.lint import lint
from torchwheel.preflight.render import render_lint
from torchwheel.reporting import add_json_option, print_document
from torchwheel.terminal import show, terminal_width, wants_colour


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        metavar="PATH",
        help="a project or a PyTorch source tree (default: the built-in overlays alone)",
    )
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Print what was found and what goes together; the status is 1 if there are errors."""
    report = lint(existing_folder(parsed.path) if parsed.path else None)
    if parsed.json:
        print_document("lint", **report.document())
    else:
        show(render_lint(report, terminal_width(), colour=wants_colour()))
    return 1 if report.errors else 0
