"""``torchwheel build``: a wheel for named hardware, and a constraints file that pins it."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchwheel.cli.build_result import built_document, print_outcome
from torchwheel.cli.request import add_output_options, populate_request, request_from
from torchwheel.engine.build import Built, build_wheel
from torchwheel.reporting import add_json_option
from torchwheel.terminal import shell_word, show
from torchwheel.wheel.metadata import write_constraints


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default="dist", help="where the wheel goes (default: dist)"
    )
    add_output_options(parser)
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Build, and say what came out and how to install it."""
    if parsed.json:
        print_outcome("build", lambda: built_document(*_build(parsed)))
        return 0
    built, constraints = _build(parsed)
    wheel = shell_word(str(built.wheel))
    show(f"\nwheel        {built.wheel}")
    show(f"constraints  {constraints}")
    # Of the same version, pip would leave another build where it is; so the requirements take a second command.
    show(f"install it   pip install --force-reinstall --no-deps {wheel}")
    show(f"its needs    pip install {wheel}")
    show(f"keep it      pip install -c {shell_word(str(constraints))} PACKAGE")
    compiled = built.compiled
    show(f"took         {built.took}, {compiled} {'file was' if compiled == 1 else 'files were'} compiled")
    return 0


def _build(parsed: argparse.Namespace) -> tuple[Built, Path]:
    """The wheel, and the constraints file beside it."""
    built = build_wheel(request_from(parsed), Path(parsed.output).absolute())
    return built, write_constraints(built.wheel)
