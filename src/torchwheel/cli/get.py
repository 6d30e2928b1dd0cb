"""``torchwheel get``: a wheel for named hardware, built only where no other serves."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path

from torchwheel.cli.request import add_wheel_folder_option, populate_request, request_from
from torchwheel.engine.wheel_sources import Choice, Way, carry_out, choose
from torchwheel.errors import EXIT_REFUSED
from torchwheel.terminal import add_json_option, facts, print_document, shell_word, show, terminal_width


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    add_wheel_folder_option(parser)
    parser.add_argument(
        "--from",
        metavar="PLACE",
        action="append",
        default=[],
        dest="places",
        help="a folder or an index with wheels that torchwheel built before; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say which wheel it would be, and why")
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Choose, say why, and put the wheel into the output folder; the status is 2 if a build would stop."""
    request, output = request_from(parsed), Path(parsed.output).absolute()
    places = [place if "://" in place else Path(place).absolute() for place in parsed.places]
    wheel = None
    # The document is all that may be on standard output.
    with redirect_stdout(sys.stderr if parsed.json else sys.stdout):
        choice = choose(request, (output, *places))
        if not parsed.json:
            show(facts(_lines(choice), terminal_width(), ("takes",)), sys.stdout)
            # What is there to be pasted is not broken, however narrow the terminal is.
            if command := _install(choice, choice.wheel):
                show(f"install  {command}", sys.stdout)
        if not parsed.dry_run:
            wheel = carry_out(choice, request, output)
    if parsed.json:
        print_document(
            "get",
            way=choice.way.value,
            reasons=list(choice.reasons),
            install=_install(choice, wheel),
            wheel=None if wheel is None else str(wheel),
        )
    elif wheel is not None:
        show(f"\nwheel       {wheel}\ninstall it  {_install(choice, wheel)}")
    return EXIT_REFUSED if parsed.dry_run and choice.stops else 0


def _lines(choice: Choice) -> list[tuple[str, str]]:
    taken = {
        Way.PUBLISHED: f"the official wheel, {choice.official and choice.official.pip_arguments[0]}",
        Way.BUILT_BEFORE: f"the wheel that was built before, {choice.wheel}",
        Way.BUILD: f"a build of {choice.plan.wheel_name}",
    }[choice.way]
    return [
        ("takes", taken),
        *(("because" if not n else " ", why) for n, why in enumerate(choice.reasons)),
    ]


def _install(choice: Choice, wheel: Path | None) -> str:
    """The command that installs it: the wheel that is here, else the official one from its index."""
    if wheel is not None:
        return f"pip install {shell_word(str(wheel))}"
    return choice.official.command if choice.official else ""
