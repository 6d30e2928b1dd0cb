"""``torchwheel extension``: what building a project's extensions would do, and what compiling them costs."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from torchwheel.cli.extension_plan import plan_content, render_extension_plan
from torchwheel.cli.json_output import add_json_option, print_document
from torchwheel.cli.request import add_config_setting_option, request_from
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.profile.document import profile_content
from torchwheel.extension.profile.measure import measure_project
from torchwheel.extension.profile.model import Compiles
from torchwheel.extension.profile.ninja_commands import build_folder_compiles
from torchwheel.extension.profile.plan_compiles import plan_compiles
from torchwheel.extension.profile.project_compiles import project_plan, selected
from torchwheel.extension.profile.render import render_profile
from torchwheel.findings import stop_on_errors
from torchwheel.host.cores import usable_cores
from torchwheel.host.memory import usable_memory
from torchwheel.survey import BuildRequest
from torchwheel.terminal import terminal_width

_EPILOG = """\
plan      prints the commands that a build would run, and why; runs none.
profile   compiles each source once more and throws the object away: what it
          costs, which headers cost it, and what other headers, the stable
          ABI, unity files or a shared front-end pass would save. It measures
          one compiler at a time, so name a few sources of a large project:
          --source 'csrc/*.cu'.
"""

# What a request holds besides, which extensions have no use for.
_NOT_ASKED = ("profile", "arch", "cuda", "cuda_path", "jobs", "version", "enable", "disable")


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("action", choices=("plan", "profile"), help="what to do, see below")
    parser.add_argument(
        "path", nargs="?", default=".", metavar="PATH", help="a project with extensions (default: here)"
    )
    parser.add_argument("--target", metavar="NAME", help="a GPU (rtx5070, gb10, a100,t4), or native")
    parser.add_argument(
        "--source", metavar="PATTERN", action="append", default=[], help="only these sources; may be repeated"
    )
    parser.add_argument(
        "--build-folder",
        metavar="FOLDER",
        dest="build_folder",
        help="take the commands from a build folder that CMake configured for ninja",
    )
    add_config_setting_option(parser)
    add_json_option(parser)
    parser.set_defaults(**dict.fromkeys(_NOT_ASKED))


def run(parsed: argparse.Namespace) -> int:
    """Print the plan or the profile; the status is 1 after a plan with errors that would stop the build."""
    request = request_from(parsed)
    if parsed.action == "plan":
        return _plan(parsed, request)
    _profile(parsed, request)
    return 0


def _plan(parsed: argparse.Namespace, request: BuildRequest) -> int:
    if parsed.build_folder is not None:
        raise TorchwheelError(_no_plan_of_folder(parsed.build_folder))
    plan = project_plan(request.project, request.config_settings, request.environment)
    asked = parsed.source and plan.extensions
    chosen = selected(plan_compiles(plan), parsed.source).compiles if asked else ()
    sources = [source for compile in chosen for source in compile.sources]
    if parsed.json:
        print_document("extension", action="plan", **plan_content(plan, sources))
    else:
        print(render_extension_plan(plan, sources, terminal_width()))
    stopping = [f for f in plan.errors if f.id not in plan.settings.skip_check]
    return 1 if stopping else 0


def _no_plan_of_folder(folder: str) -> Problem:
    return Problem(
        id="no-plan-of-build-folder",
        what="a build folder has commands, and no plan of torchwheel's",
        remedy=f"to see its commands: ninja -C {folder} -t commands; to measure them: torchwheel extension profile",
        origin="--build-folder",
    )


def _profile(parsed: argparse.Namespace, request: BuildRequest) -> None:
    cores = usable_cores()
    profile = measure_project(
        selected(_compiles(parsed, request, cores), parsed.source),
        request.environment,
        memory_bytes=usable_memory(),
        cores=cores,
        say=_say,
    )
    if parsed.json:
        print_document("extension", action="profile", **profile_content(profile))
    else:
        print(render_profile(profile, terminal_width()))


def _compiles(parsed: argparse.Namespace, request: BuildRequest, cores: int | None) -> Compiles:
    if parsed.build_folder is not None:
        folder = Path(parsed.build_folder).absolute()
        return build_folder_compiles(request.project, folder, os.environ, jobs=cores or 1)
    plan = project_plan(request.project, request.config_settings, request.environment)
    stop_on_errors(plan.findings, plan.settings.skip_check)
    return plan_compiles(plan)


def _say(what: str) -> None:
    """Progress goes to stderr, where it spoils no document."""
    print(f"measuring {what}", file=sys.stderr, flush=True)
