"""``torchwheel extension``: what building a project's extensions would do, and what compiling them costs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torchwheel.cli.request import add_config_setting_option, existing_folder, request_from
from torchwheel.errors import TorchwheelError, refusal
from torchwheel.extension.compile.ninja import command_line
from torchwheel.extension.model import ExtensionPlan, PlannedExtension, Step
from torchwheel.extension.profile.compiles import build_folder_compiles, plan_compiles, selected
from torchwheel.extension.profile.measure import measure_project
from torchwheel.extension.profile.model import Compiles
from torchwheel.extension.profile.output import profile_content, render_profile
from torchwheel.extension.project import project_plan
from torchwheel.findings import skipped_errors
from torchwheel.host.limits import usable_cores, usable_memory
from torchwheel.reporting import add_json_option, print_document
from torchwheel.survey import BuildRequest
from torchwheel.terminal import facts, show, terminal_width

_EPILOG = """\
plan      prints the commands that a build would run, and why; runs none.
profile   compiles each source once more and throws the object away: what it
          costs, which headers cost it, and what other headers, the stable
          ABI, unity files or a shared front-end pass would save. It measures
          one compiler at a time, so name a few sources of a large project:
          --source 'csrc/*.cu'.

Both run a setup.py, up to the point where it would build, as its own code
says: name no project that you would not install. Tables are only read.
"""


def populate(parser: argparse.ArgumentParser) -> None:
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


def run(parsed: argparse.Namespace) -> int:
    """Print the plan or the profile; the status is 1 after a plan with errors that would stop the build."""
    request = request_from(parsed)
    existing_folder(request.project)
    if parsed.action == "plan":
        return _plan(parsed, request)
    _profile(parsed, request)
    return 0


def _plan(parsed: argparse.Namespace, request: BuildRequest) -> int:
    if parsed.build_folder is not None:
        raise refusal(
            id="no-plan-of-build-folder",
            what="a build folder has commands, and no plan of torchwheel's",
            remedy=f"to see its commands: ninja -C {parsed.build_folder} -t commands; "
            "to measure them: torchwheel extension profile",
            origin="--build-folder",
        )
    plan = project_plan(request)
    filtered = parsed.source and plan.extensions
    chosen = selected(plan_compiles(plan), parsed.source).compiles if filtered else ()
    sources = [source for compile in chosen for source in compile.sources]
    if parsed.json:
        print_document("extension", action="plan", **plan_content(plan, sources))
    else:
        show(render_extension_plan(plan, sources, terminal_width()))
    try:
        plan.stop_on_errors()
    except TorchwheelError as error:
        # A build installs the toolkit first, and does not stop at that.
        return 1 if any(problem.id != "toolkit-not-installed" for problem in error.problems) else 0
    return 0


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
        show(render_profile(profile, terminal_width()))


def _compiles(parsed: argparse.Namespace, request: BuildRequest, cores: int | None) -> Compiles:
    if parsed.build_folder is not None:
        folder = Path(parsed.build_folder).absolute()
        return build_folder_compiles(request.project, folder, os.environ, jobs=cores or 1)
    plan = project_plan(request)
    plan.stop_on_errors()
    return plan_compiles(plan)


def _say(what: str) -> None:
    """Progress goes to stderr, where it spoils no document."""
    print(f"measuring {what}", file=sys.stderr, flush=True)


def render_extension_plan(plan: ExtensionPlan, sources: Sequence[str], width: int) -> str:
    """What is decided and why, then every command, then what is worth knowing.

    Args:
        sources: the sources to show the commands of; empty for all commands.
        width: columns of the page; commands and paths are not wrapped, so that they can be copied.
    """
    blocks = [facts(_decisions(plan), width, _PATHS)]
    for extension in plan.extensions:
        blocks.append("\n".join(_extension(extension, plan, sources)))
    blocks += [finding.render(plan.skipped) for finding in plan.findings]
    return "\n\n".join(blocks)


_PATHS = ("project", "PyTorch", "CUDA", "compiler cache", "builds in", "links there")


def _decisions(plan: ExtensionPlan) -> Iterator[tuple[str, str]]:
    torch, toolkit, targets = plan.inputs.torch, plan.inputs.toolkit, plan.project.settings.target_names
    yield "project", str(plan.project.folder)
    yield "target", ", ".join(targets) or "none named"
    whose = "" if plan.project.settings.arch else " (no target is named)"
    yield "device code", f"{plan.architectures}{whose}" if plan.architectures else "none"
    yield "PyTorch", f"{torch.version} in {torch.root}"
    yield "CUDA", f"{toolkit.version} in {toolkit.root} ({toolkit.origin})" if toolkit else "none"
    yield "label", plan.local_version or "none"
    yield "requires", ", ".join(plan.requires)
    yield "jobs", f"{plan.jobs.max_jobs} ({plan.jobs.reason})"
    yield "compiler cache", " ".join(plan.inputs.launcher) or "none"
    yield "builds in", str(plan.folder)
    yield "links there", ", ".join(f"{name} -> {folder}" for name, folder in plan.links.items())


def _extension(extension: PlannedExtension, plan: ExtensionPlan, sources: Sequence[str]) -> Iterator[str]:
    yield f"{extension.extension.name} -> {extension.file_name}"
    for step in _shown(extension, sources):
        yield f"  # {step.description}"
        yield f"  {command_line(step.command, windows=plan.host_is_windows)}"


def _shown(extension: PlannedExtension, sources: Sequence[str]) -> list[Step]:
    return [step for step in extension.steps if not sources or set(step.sources) & set(sources)]


def plan_content(plan: ExtensionPlan, sources: Sequence[str]) -> dict[str, Any]:
    """What ``torchwheel extension plan --json`` prints, without its heading.

    Args:
        sources: the sources to show the commands of; empty for all commands.
    """
    torch, toolkit = plan.inputs.torch, plan.inputs.toolkit
    return {
        "project": str(plan.project.folder),
        "targets": list(plan.project.settings.target_names),
        "architectures": str(plan.architectures) if plan.architectures else None,
        "torch": {"version": torch.version, "root": str(torch.root)},
        "toolkit": {"version": toolkit.version, "root": toolkit.root} if toolkit else None,
        "local_version": plan.local_version,
        "requires": list(plan.requires),
        "jobs": plan.jobs.max_jobs,
        "launcher": list(plan.inputs.launcher),
        "folder": str(plan.folder),
        "links": {name: str(folder) for name, folder in plan.links.items()},
        "extensions": [
            {
                "name": extension.extension.name,
                "file": extension.file_name,
                "steps": [_step(step) for step in _shown(extension, sources)],
            }
            for extension in plan.extensions
        ],
        "findings": [
            {"severity": f.severity.value, "id": f.id, "what": f.problem.what, "remedy": f.problem.remedy}
            for f in plan.findings
        ],
        "skipped": skipped_errors(plan.findings, plan.skipped),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "sources": list(step.sources),
        "output": step.output,
        "command": list(step.command),
        "architectures": str(step.architectures) if step.architectures else None,
    }
