"""``torchwheel matrix``: the jobs that build for several targets, Pythons and platforms, as JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from pathlib import Path

from torchwheel.cli.request import (
    add_config_setting_option,
    add_path_argument,
    add_setting_option,
    request_from,
)
from torchwheel.fleet.fleet_jobs import Fleet, LeftOut, make_fleet
from torchwheel.fleet.planners import FleetRequest
from torchwheel.host.machine import (
    described_host,
    described_python,
    is_free_threaded,
    parse_platform,
    this_python,
)
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import print_document, show, terminal_width, wrap
from torchwheel.settings import load_settings
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.settings.overlays import NO_USER_OVERLAYS
from torchwheel.settings.project import read_project, read_project_settings

_WHEELS = (
    "what a wheel is for: a GPU, several in one wheel (a100,h100), or cpu; may be repeated (default: the project's own "
    "targets)"
)
_PLATFORMS = "e.g. linux-x86_64,linux-aarch64,windows-amd64 (default: linux-x86_64)"


def populate(parser: argparse.ArgumentParser) -> None:
    add_path_argument(parser)
    add_setting_option(parser, "target")
    for words, metavar, name, what in (
        (("-w", "--wheel"), "TARGETS", "wheels", _WHEELS),
        (("--python",), "LIST", "pythons", "e.g. 3.12,3.13,3.14t (default: the one that runs torchwheel)"),
        (("--platform",), "LIST", "platforms", _PLATFORMS),
    ):
        parser.add_argument(*words, metavar=metavar, action="append", default=[], dest=name, help=what)
    parser.add_argument(
        "--no-image",
        action="store_false",
        dest="images",
        help="jobs run in what their machines have: name no image, and leave CUDA on Linux to the machine",
    )
    which = "extensions: the PyTorch to build against (default: the newest)"
    parser.add_argument("--torch", metavar="VERSION", default="", help=which)
    add_setting_option(parser, "package-version")
    add_config_setting_option(parser)
    # Nothing but JSON is printed, so errors are JSON too.
    parser.set_defaults(json=True)


def run(parsed: argparse.Namespace) -> int:
    request = _make_request(parsed)
    fleet = make_fleet(request)
    _report_left_out(fleet)
    print_document(
        "matrix",
        # A line of GITHUB_OUTPUT holds one line.
        on_one_line=True,
        jobs=fleet.documents(),
        left_out=[one.document() for one in fleet.left_out],
        needless=[one.document() for one in fleet.needless],
    )
    return 0


def _make_request(parsed: argparse.Namespace) -> FleetRequest:
    given, python = request_from(parsed), this_python()
    settings = {key: value for key, value in given.config_settings.items() if key != "target"}
    wheels = _drop_repeated(parsed.wheels)
    if (target := given.config_settings.get("target")) is not None:
        if wheels:
            raise refusal("contradiction/targets", origin="--wheel")
        wheels = (",".join(target) if isinstance(target, list) else str(target),)
    pythons = _drop_repeated(_split_lists(parsed.pythons)) or (
        python.minor_version + ("t" if is_free_threaded(python.abi_tag) else ""),
    )
    for version in pythons:
        described_python(version, origin="--python")
    return FleetRequest(
        project=given.project.resolve(),
        targets=wheels or _own_targets(given.project, settings),
        platforms=_drop_repeated(
            parse_platform(name, "--platform").tag
            for name in _split_lists(parsed.platforms or ["linux-x86_64"])
        ),
        pythons=pythons,
        images=parsed.images,
        settings=settings,
        torch=parsed.torch,
    )


def _split_lists(texts: Iterable[str]) -> list[str]:
    return [word for text in texts for word in text.split(",") if word.strip()]


def _drop_repeated(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))


def _own_targets(project: Path, settings: ConfigSettings) -> tuple[str, ...]:
    host = described_host("linux_x86_64")
    if names := load_settings(project, settings, {}, host, NO_USER_OVERLAYS).target:
        return (",".join(names),)
    _, described = read_project_settings(read_project(project), host, [])
    if described:
        return tuple(described)
    raise refusal("no-target/jobs", origin="-w")


def _report_left_out(fleet: Fleet) -> None:
    """Print on standard error which combinations are no job of their own, which need not be one, and why."""
    width = terminal_width()
    for left in fleet.left_out:
        problem = replace(left.problem, origin="")
        show("\n".join(problem.lines(width, f"left out: {left.where}: ")), sys.stderr)
    if fleet.needless:
        problem = fleet.needless[0].problem
        every = LeftOut(tuple(chain.from_iterable(one.combinations for one in fleet.needless)), problem)
        text = f"already published: {every.where}: official builds of PyTorch run there; `torchwheel plan` says which, "
        lines = wrap(f"{text}and what building it yourself gives  [{problem.id}]", width, "", "    ")
        show("\n".join(lines), sys.stderr)
