"""``torchwheel lint``: all targets against all CUDA toolkits and PyTorch releases, for CI without CUDA."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        metavar="PATH",
        help="a project or a PyTorch source tree (default: the built-in overlays alone)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the findings and the matrix as a JSON document"
    )


def run(parsed: argparse.Namespace) -> int:
    """Print what was found and what works; the status is 1 if there are errors."""
    from torchwheel.preflight.lint import lint

    report = lint(parsed.path.absolute() if parsed.path else None)
    if parsed.json:
        import json

        from torchwheel.preflight.document import lint_document

        print(json.dumps(lint_document(report), indent=2))
    else:
        from torchwheel.preflight.lint_render import render_lint
        from torchwheel.preflight.terminal import terminal_width, wants_colour

        print(render_lint(report, terminal_width(), colour=wants_colour(sys.stdout, os.environ)))
    return 1 if report.errors else 0
