"""``torchwheel matrix``: jobs that build for several targets, Pythons and platforms, for a CI service or a shell."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from torchwheel._files import atomic_write
from torchwheel.cli.request import add_config_setting_option, add_version_option, request_from
from torchwheel.errors import refusal
from torchwheel.fleet.formats import files
from torchwheel.fleet.jobs import Fleet, FleetRequest, LeftOut, make_fleet
from torchwheel.fleet.planners import planner_for
from torchwheel.fleet.services import services
from torchwheel.host.described import described_host, described_python, parse_platform
from torchwheel.host.model import is_free_threaded
from torchwheel.host.this import this_python
from torchwheel.masking import mask
from torchwheel.reporting import add_json_option, print_document
from torchwheel.settings import load_settings
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.settings.overlays import NO_USER_OVERLAYS
from torchwheel.settings.project import read_project, read_project_settings
from torchwheel.terminal import show, terminal_width, wrap


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="a PyTorch source tree, a wrapper project, or a project with extensions (default: here)",
    )
    parser.add_argument(
        "-t",
        "--target",
        metavar="NAME",
        action="append",
        default=[],
        dest="targets",
        help="what a wheel is for: a GPU, several in one wheel (a100,h100), or cpu; may be repeated (default: the "
        "project's own targets)",
    )
    parser.add_argument(
        "--python",
        metavar="LIST",
        dest="pythons",
        default="",
        help="e.g. 3.12,3.13,3.14t (default: the one that runs torchwheel)",
    )
    parser.add_argument(
        "--platform",
        metavar="LIST",
        dest="platforms",
        default="linux-x86_64",
        help="e.g. linux-x86_64,linux-aarch64,windows-amd64 (default: linux-x86_64)",
    )
    parser.add_argument(
        "--format", choices=tuple(services()), default="github", help="who runs the jobs (default: github)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="the file to write, for cloud-build a folder, instead of printing it",
    )
    parser.add_argument(
        "--machine",
        metavar="PLATFORM=NAME",
        action="append",
        default=[],
        dest="machines",
        help="the runner label, tag or machine type to take instead of the service's own; may be repeated",
    )
    parser.add_argument(
        "--torch",
        metavar="VERSION",
        default="",
        help="extensions: the PyTorch to build against (default: the newest)",
    )
    parser.add_argument(
        "--torchwheel",
        metavar="REQUIREMENT",
        default="torchwheel",
        help="what the jobs install as torchwheel: a version, an address, or a wheel in the checkout",
    )
    add_version_option(parser)
    add_config_setting_option(parser)
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Plan the jobs, say what was left out, and print or write them.

    Raises:
        TorchwheelError: a value is malformed, no job can be planned, or a file cannot be written.
    """
    request = _request(parsed)
    fleet = make_fleet(request, planner_for(request))
    output = Path(parsed.output).absolute() if parsed.output else None
    several = request.service.format == "cloud-build"
    if several and output is None and not parsed.json:
        raise refusal(
            id="output-folder-needed",
            what="Google Cloud Build takes several files: a Dockerfile and a configuration for each job",
            remedy="name a folder of the checkout for them: -o ci/cloud-build",
            origin="--format cloud-build",
        )
    _tell(fleet)
    place = _place(output, request.root) if several and output else ""
    made = {name: mask(text) for name, text in files(fleet, request, place).items()}
    if output is not None:
        for name, text in made.items():
            file = output / name if several else output
            file.parent.mkdir(parents=True, exist_ok=True)
            atomic_write(file, text.encode())
            if name.endswith(".sh"):
                file.chmod(0o755)
    if parsed.json:
        print_document(
            "matrix",
            format=request.service.format,
            jobs=[job.document() for job in fleet.jobs],
            left_out=[one.document() for one in fleet.left_out],
            needless=[one.document() for one in fleet.needless],
            variables=fleet.variables,
        )
    elif output is None:
        print(*made.values(), sep="", end="")
    return 0


def _request(parsed: argparse.Namespace) -> FleetRequest:
    given = request_from(parsed)
    settings: ConfigSettings = given.config_settings
    if "target" in settings:
        raise refusal(
            id="contradiction",
            what="-C target names one target, and the jobs have several",
            remedy="name each with -t: -t a100,h100 -t cpu",
            origin="-C target",
        )
    pythons = _unique(parsed.pythons.split(",")) or (_this_python(),)
    for python in pythons:
        described_python(python, origin="--python")
    return FleetRequest(
        project=given.project.resolve(),
        targets=_unique(parsed.targets) or _own_targets(given.project, settings),
        platforms=_unique(
            _platform(name, "--platform") for name in parsed.platforms.split(",") if name.strip()
        ),
        pythons=pythons,
        service=services()[parsed.format],
        settings=settings,
        machines=dict(_machines(parsed.machines)),
        torch=parsed.torch,
        torchwheel=parsed.torchwheel,
    )


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))


def _platform(name: str, origin: str) -> str:
    """The tag of a platform, which people call ``windows-amd64``."""
    return parse_platform(re.sub(r"^\s*windows", "win", name), origin).tag


def _machines(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        platform, equals, name = word.partition("=")
        if not equals or not name:
            raise refusal(
                id="malformed-machine",
                what=f"'{word}' is not of the form PLATFORM=NAME",
                remedy="for example --machine linux-x86_64=big-runner",
                origin="--machine",
            )
        yield _platform(platform, "--machine"), name


def _this_python() -> str:
    python = this_python()
    return python.minor_version + ("t" if is_free_threaded(python.abi_tag) else "")


def _own_targets(project: Path, settings: ConfigSettings) -> tuple[str, ...]:
    """The target that a project sets, else those that it describes."""
    host = described_host("linux_x86_64")
    if names := load_settings(project, settings, {}, host, NO_USER_OVERLAYS).target_names:
        return (",".join(names),)
    if described := read_project_settings(read_project(project), host, []).targets:
        return tuple(described)
    raise refusal(
        id="no-target",
        what="no target is named",
        remedy="name each wheel's hardware: -t a100,h100 -t rtx5070 -t cpu",
        origin="-t",
    )


def _place(output: Path, root: Path) -> str:
    """Where a folder lies in the checkout, in which the files are used."""
    output = output.resolve()
    return output.relative_to(root).as_posix() if output.is_relative_to(root) else output.name


def _tell(fleet: Fleet) -> None:
    """Say on standard error what is no job of its own, and what need not be one, and why."""
    width = terminal_width()
    for left in fleet.left_out:
        problem = left.problem
        lines = wrap(f"left out: {left.where}: {problem.what}  [{problem.id}]", width, "", "    ")
        lines += wrap(f"why: {problem.why}", width, "    ", "         ") if problem.why else []
        lines += wrap(f"fix: {problem.remedy}", width, "    ", "         ")
        show("\n".join(lines), sys.stderr)
    if fleet.needless:
        problem = fleet.needless[0].problem
        every = LeftOut(tuple(chain.from_iterable(one.combinations for one in fleet.needless)), problem)
        text = f"need not be built: {every.where}: official builds of PyTorch run there; `torchwheel plan` says which, "
        lines = wrap(f"{text}and what building would still gain  [{problem.id}]", width, "", "    ")
        show("\n".join(lines), sys.stderr)
