"""``torchwheel get``: a wheel for named hardware, built only if no other fits."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from torchwheel.cli.request import add_wheel_folder_option, populate_request, request_from
from torchwheel.engine.ready_wheels import choose_ready, fetch_ready
from torchwheel.engine.wheel_sources import ChosenSource, Way, carry_out, choose_way
from torchwheel.host.this import with_home_and_path
from torchwheel.reporting.errors import EXIT_REFUSED, refusal
from torchwheel.reporting.masking import mask
from torchwheel.reporting.terminal import Answer, format_facts, join_items, shell_word, show
from torchwheel.system.paths import exists


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    add_wheel_folder_option(parser)
    parser.add_argument(
        "--from",
        metavar="PLACE",
        action="append",
        default=[],
        dest="places",
        help="a site that `torchwheel index` made, or a folder with wheels that torchwheel built "
        "before; may be repeated. Without a source tree, PATH is what to get: torch (default), or 'my-ops==1.2'",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say which wheel it would be, and why")


def run(parsed: argparse.Namespace) -> Answer:
    output = Path(parsed.output).absolute()
    places = [place if "://" in place else Path(place).absolute() for place in parsed.places]
    if places and (wanted := _parse_requirement(parsed.path)) is not None:
        return _get_ready(parsed, wanted, places, output)
    request = request_from(parsed)
    wheel = None
    # The document is all that may be on standard output.
    with redirect_stdout(sys.stderr if parsed.json else sys.stdout):
        choice = choose_way(request, (output, *places))
        if not parsed.json:
            _show_choice([("takes", _describe_taken(choice))], choice.reasons)
            # What is there to be pasted is not broken, however narrow the terminal is.
            if command := _install(choice, choice.wheel):
                show(f"install  {command}", sys.stdout)
        if not parsed.dry_run:
            wheel = carry_out(choice, request, output)
    status = EXIT_REFUSED if parsed.dry_run and choice.stops else 0
    return _answer(choice.way.value, choice.reasons, _install(choice, wheel), wheel, status)


def _answer(way: str, reasons: Sequence[str], install: str, wheel: Path | None, status: int = 0) -> Answer:
    return Answer(
        {"way": way, "reasons": list(reasons), "install": install, "wheel": wheel and str(wheel)},
        lambda: f"\nwheel       {wheel}\ninstall it  {install}" if wheel else "",
        status,
    )


def _parse_requirement(path: str) -> Requirement | None:
    """What is to be got where PATH is no source tree; None where it is one, or cannot be a requirement."""
    folder = Path(path)
    if path == "." and not any(exists(folder / name) for name in ("pyproject.toml", "setup.py")):
        return Requirement("torch")
    try:
        return None if exists(folder) else Requirement(path)
    except InvalidRequirement:
        return None


def _get_ready(
    parsed: argparse.Namespace, wanted: Requirement, places: Sequence[Path | str], output: Path
) -> Answer:
    environment, wheel = with_home_and_path(dict(os.environ)), None
    settings = dict(request_from(parsed).config_settings)
    target = settings.pop("target", None)
    if settings:
        raise refusal("contradiction/sites", origin="--from", settings=join_items(list(settings)))
    names = ",".join(target) if isinstance(target, list) else target
    with redirect_stdout(sys.stderr if parsed.json else sys.stdout):
        choice = choose_ready(wanted, None if names is None else str(names), places, environment)
        if not parsed.json:
            _show_choice(
                [("takes", choice.wheel.file.name), ("from", mask(str(choice.place)))], choice.reasons
            )
        if not parsed.dry_run:
            wheel = fetch_ready(choice, output, environment)
    install = f"pip install {shell_word(str(wheel))}" if wheel else ""
    return _answer("ready", choice.reasons, install, wheel)


def _show_choice(rows: list[tuple[str, str]], reasons: Sequence[str]) -> None:
    rows += [("because" if not n else " ", why) for n, why in enumerate(reasons)]
    show(format_facts(rows, whole=("takes", "from")), sys.stdout)


def _describe_taken(choice: ChosenSource) -> str:
    return {
        Way.PUBLISHED: f"the official wheel, {choice.official and choice.official.pip_arguments[0]}",
        Way.BUILT_BEFORE: f"the wheel that was built before, {choice.wheel}",
        Way.BUILD: f"a build of {choice.plan.wheel_name}",
    }[choice.way]


def _install(choice: ChosenSource, wheel: Path | None) -> str:
    """The command that installs it: the wheel that is here, else the official one from its index."""
    if wheel is not None:
        return f"pip install {shell_word(str(wheel))}"
    return choice.official.command if choice.official else ""
