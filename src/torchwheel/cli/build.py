"""``torchwheel build``: a wheel for named hardware, and a constraints file that pins it."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchwheel.cli.request import populate_request, request_from


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    populate_request(parser)
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", default="dist", help="where the wheel goes (default: dist)"
    )


def run(parsed: argparse.Namespace) -> int:
    """Build, and say what came out and how to install it."""
    from torchwheel.engine.build import build_wheel
    from torchwheel.wheel.constraints import write_constraints

    folder = Path(parsed.output).absolute()
    name = build_wheel(request_from(parsed), folder)
    constraints = write_constraints(folder / name)
    print(f"\nwheel        {folder / name}")
    print(f"constraints  {constraints}")
    print(f"install it   pip install '{folder / name}'")
    print(f"keep it      pip install -c '{constraints}' PACKAGE")
    return 0
