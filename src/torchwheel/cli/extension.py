"""``torchwheel extension plan``: what building a project's extensions would do."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from torchwheel.cli.request import add_config_setting_option, add_target_option, existing_folder, request_from
from torchwheel.engine.index_answer import ask_index
from torchwheel.extension import extension_build
from torchwheel.extension.compile.ninja_build import command_line
from torchwheel.extension.extension_plan import ExtensionPlan, PlannedExtension, Step
from torchwheel.extension.extension_project import ProjectKind, project_plan, read_hook_request
from torchwheel.extension.torch_install.installed_torch import torch_findings
from torchwheel.preflight.report import Report, report_findings, report_problems
from torchwheel.reporting.errors import (
    EXIT_REFUSED,
    Problem,
    TorchwheelError,
    find_nearest,
    refusal,
    skipped_errors,
    stop_on,
)
from torchwheel.reporting.terminal import (
    add_json_option,
    format_facts,
    print_document,
    shell_word,
    show,
    terminal_width,
)
from torchwheel.survey import BuildRequest
from torchwheel.toolkit.pypi import requirements_for
from torchwheel.tree.build_system import ill_formed_requires
from torchwheel.versions import major_minor

_EPILOG = """\
A project with a setup.py is planned by running that file, up to the point
where it would build: name no project that you would not install. Tables are
only read.
"""


def populate(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("action", choices=("plan",), help="print the commands of a build, and why; runs none")
    parser.add_argument(
        "path", nargs="?", default=".", metavar="PATH", help="a project with extensions (default: here)"
    )
    add_target_option(parser)
    parser.add_argument(
        "--source", metavar="PATTERN", action="append", default=[], help="only these sources; may be repeated"
    )
    add_config_setting_option(parser)
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Print the plan; the status is 2 if it has errors that would stop the build."""
    request = request_from(parsed)
    existing_folder(request.project)
    return print_plan(request, parsed.source, as_json=parsed.json)


def print_plan(request: BuildRequest, patterns: Sequence[str] = (), *, as_json: bool) -> int:
    """Print the plan of extensions, of the sources that patterns match; returns the program's exit status.

    Raises:
        TorchwheelError: nothing can be planned, or a pattern matches no source.
    """
    try:
        plan = project_plan(request)
    except TorchwheelError as failure:
        if [problem.id for problem in failure.problems] != ["torch-not-installed"]:
            raise
        return _plan_isolated(request, failure, as_json=as_json)
    sources = _select_sources(plan, patterns)
    if as_json:
        print_document("extension", action="plan", **plan_content(plan, sources))
    else:
        show(render_extension_plan(plan, sources, terminal_width()))
    try:
        plan.stop_on_errors()
    except TorchwheelError:
        return EXIT_REFUSED
    return 0


def build_project(request: BuildRequest, output: Path) -> Path:
    """Build the wheel of a project against the PyTorch that is installed beside torchwheel.

    Raises:
        TorchwheelError: nothing can be built, or the result is not as planned.
    """
    with _as_of_a_command(request.project):
        return output / extension_build.build_wheel(request, output, None, editable=False)


def examine_project(request: BuildRequest, host: Path | None) -> Report:
    """Report what would stop or spoil the build of a project's extensions on this machine.

    Raises:
        TorchwheelError: another machine is named.
    """
    if host is not None:
        raise refusal("contradiction/extensions", origin="--host", options="--host")
    try:
        with _as_of_a_command(request.project):
            asked = read_hook_request(request)
            # A setup.py fails without it, and CMake finds the rest itself.
            found = (*asked.project.findings, *torch_findings(asked.project.torch))
            if asked.kind is ProjectKind.CMAKE:
                return report_findings(found)
            plan = project_plan(request)
    except TorchwheelError as error:
        return report_problems(error.problems)
    return report_findings(plan.findings, plan.skipped)


@contextmanager
def _as_of_a_command(project: Path) -> Iterator[None]:
    """Say of a missing PyTorch what helps a command, which has no environment of its own as a frontend's build has."""
    try:
        yield
    except TorchwheelError as error:
        if [problem.id for problem in error.problems] != ["torch-not-installed"]:
            raise
        raise refusal("torch-not-installed/command", project=shell_word(str(project))) from None


def _plan_isolated(request: BuildRequest, failure: TorchwheelError, *, as_json: bool) -> int:
    """Print what an isolated build would find today; without PyTorch here there is nothing more to say.

    Raises:
        TorchwheelError: the project asks for no PyTorch, or what it asks for does not fit together.
    """
    hooks = read_hook_request(request)
    project, settings = hooks.project, hooks.project.settings
    wanted = project.pyproject.table("build-system").get("requires", [])
    stop_on(ill_formed_requires(project.folder, wanted))
    if "torch" not in {Requirement(text).name for text in wanted}:
        raise failure
    found = ask_index([*wanted, hooks.kind.requirement], request.environment)
    cuda = major_minor(found["cuda-toolkit"]) if "cuda-toolkit" in found else None
    if settings.arch and not settings.is_cpu and cuda is None:
        raise refusal(
            "torch-without-cuda/index", torch=found["torch"], target=", ".join(settings.target_names)
        )
    toolkit = ask_index(requirements_for(cuda), request.environment) if cuda and not settings.is_cpu else {}
    if as_json:
        print_document("extension", action="plan", isolated={"build": found, "toolkit": toolkit})
        return 0
    rows = [
        ("project", str(project.folder)),
        ("target", ", ".join(settings.target_names) or "none named"),
        (
            "isolated",
            f"a build of today has torch {found['torch']} for {f'CUDA {cuda}' if cuda else 'the CPU'}",
        ),
        ("with it", ", ".join(f"{name} {found[name]}" for name in sorted(found) if name != "torch")),
    ]
    if toolkit:
        rows.append(("toolkit", f"cuda-toolkit {toolkit['cuda-toolkit']} of PyPI, where none is installed"))
    show(format_facts(rows, terminal_width(), _PATHS))
    return 0


def _select_sources(plan: ExtensionPlan, patterns: Sequence[str]) -> list[str]:
    """Return the plan's sources that a pattern matches, by path or by name.

    Raises:
        TorchwheelError: a pattern matches no source of the plan.
    """
    steps = (step for extension in plan.extensions for step in extension.steps if step.cacheable)
    sources = list(dict.fromkeys(source for step in steps for source in step.sources))
    if plan.extensions:
        stop_on(
            _unmatched_problem(pattern, sources)
            for pattern in patterns
            if not _matching_sources(sources, pattern)
        )
    chosen = {source for pattern in patterns for source in _matching_sources(sources, pattern)}
    return [source for source in sources if source in chosen]


def _matching_sources(sources: Collection[str], pattern: str) -> list[str]:
    return [
        source
        for source in sources
        if fnmatchcase(source, pattern) or fnmatchcase(source.rpartition("/")[2], pattern)
    ]


def _unmatched_problem(pattern: str, sources: Collection[str]) -> Problem:
    meant = find_nearest(pattern, sources)
    return Problem.of(
        "no-such-source/near" if meant else "no-such-source",
        origin="--source",
        pattern=pattern,
        sources=", ".join(sources),
        meant=meant,
    )


def render_extension_plan(plan: ExtensionPlan, sources: Sequence[str], width: int) -> str:
    """What is decided and why, then every command, then what is worth knowing.

    Args:
        sources: the sources to show the commands of; empty for all commands.
        width: columns of the page; commands and paths are not wrapped, so that they can be copied.
    """
    blocks = [format_facts(_list_decisions(plan), width, _PATHS)]
    for extension in plan.extensions:
        blocks.append("\n".join(_render_extension(extension, plan, sources)))
    blocks += [finding.render(plan.skipped) for finding in plan.findings]
    return "\n\n".join(blocks)


_PATHS = ("project", "PyTorch", "CUDA", "compiler cache", "builds in", "links there")


def _list_decisions(plan: ExtensionPlan) -> Iterator[tuple[str, str]]:
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


def _render_extension(
    extension: PlannedExtension, plan: ExtensionPlan, sources: Sequence[str]
) -> Iterator[str]:
    yield f"{extension.extension.name} -> {extension.file_name}"
    for step in _shown_steps(extension, sources):
        yield f"  # {step.description}"
        yield f"  {command_line(step.command, windows=plan.host_is_windows)}"


def _shown_steps(extension: PlannedExtension, sources: Sequence[str]) -> list[Step]:
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
                "steps": [_step_document(step) for step in _shown_steps(extension, sources)],
            }
            for extension in plan.extensions
        ],
        "findings": [
            {"severity": f.severity.value, "id": f.id, "what": f.problem.what, "remedy": f.problem.remedy}
            for f in plan.findings
        ],
        "skipped": skipped_errors(plan.findings, plan.skipped),
    }


def _step_document(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "sources": list(step.sources),
        "output": step.output,
        "command": list(step.command),
        "architectures": str(step.architectures) if step.architectures else None,
    }
