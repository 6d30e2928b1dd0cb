"""What ``plan``, ``build`` and ``doctor`` do of a project's extensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from torchwheel.extension import extension_build
from torchwheel.extension.extension_plan import ExtensionPlan, PlannedExtension
from torchwheel.extension.extension_project import HookRequest, ProjectKind, project_plan, read_hook_request
from torchwheel.extension.wheel_record import record_of
from torchwheel.host.compilers import join_words
from torchwheel.host.installer import ask_index
from torchwheel.preflight.doctor import Examination
from torchwheel.reporting.errors import (
    EXIT_REFUSED,
    TorchwheelError,
    error,
    refusal,
    skipped_errors,
    stop_on,
    stopping_errors,
)
from torchwheel.reporting.terminal import fields_of, format_facts, print_document, shell_word, show
from torchwheel.survey import BuildRequest
from torchwheel.toolkit.pypi import requirements_for
from torchwheel.torch_install.installed_torch import torch_findings
from torchwheel.tree.source_tree import ill_formed_requires
from torchwheel.versions import major_minor

_PATHS = ("project", "PyTorch", "CUDA", "compiler cache", "builds in", "links there")
"""Rows that are not wrapped, so that they can be copied."""
_STEP_FIELDS = ("kind", "sources", "output", "command", "architectures")


def print_plan(request: BuildRequest, *, as_json: bool) -> int:
    """Print the plan of extensions; the status is 2 if it has errors that would stop the build."""
    asked = read_hook_request(request)
    try:
        # Before a setup.py runs, which fails in its own way without it.
        _ = asked.project.torch
        plan = project_plan(asked)
    except TorchwheelError as failure:
        if not _is_for_lack_of_torch(failure):
            raise
        return _plan_isolated(asked, request.environment, failure, as_json=as_json)
    if as_json:
        print_document("plan", **plan_content(plan))
    else:
        show(render_extension_plan(plan))
    return EXIT_REFUSED if stopping_errors(plan.findings, plan.skipped) else 0


def build_project(request: BuildRequest, output: Path) -> Path:
    with _as_of_a_command(request):
        return output / extension_build.build_wheel(request, output, None, editable=False)


def examine_project(request: BuildRequest, host: Path | None) -> Examination:
    """Report what would stop or spoil the build of a project's extensions on this machine."""
    if host is not None:
        raise refusal("contradiction/extensions", origin="--host", options="--host")
    try:
        with _as_of_a_command(request):
            asked = read_hook_request(request)
            # A setup.py fails without it, and CMake finds the rest itself.
            found = (*asked.project.findings, *torch_findings(asked.project.torch))
            if asked.kind is ProjectKind.CMAKE:
                return Examination.of(found)
            plan = project_plan(asked)
    except TorchwheelError as failure:
        return Examination.of(map(error, failure.problems))
    return Examination.of(plan.findings, plan.skipped)


@contextmanager
def _as_of_a_command(request: BuildRequest) -> Iterator[None]:
    """Say of a missing PyTorch what helps a command, which has no environment of its own as a frontend's build has."""
    try:
        yield
    except TorchwheelError as error:
        if not _is_for_lack_of_torch(error):
            raise
        # The long option, because the command is another one than that which says so.
        settings = [
            f"--config-settings {shell_word(f'{name}={one}')} "
            for name, value in request.config_settings.items()
            for one in (value if isinstance(value, list) else [value])
        ]
        project = f"{''.join(settings)}{shell_word(str(request.project))}"
        raise refusal("torch-not-installed/command", project=project) from None


def _is_for_lack_of_torch(error: TorchwheelError) -> bool:
    """Whether PyTorch is not installed, whatever else that makes a setup.py say."""
    return "torch-not-installed" in {problem.id for problem in error.problems}


def _plan_isolated(
    asked: HookRequest, environment: Mapping[str, str], failure: TorchwheelError, *, as_json: bool
) -> int:
    """Print what an isolated build would find today; without PyTorch here there is nothing more to say."""
    project, settings = asked.project, asked.project.settings
    wanted = project.pyproject.table("build-system").get("requires", [])
    stop_on(ill_formed_requires(project.folder, wanted))
    if "torch" not in {Requirement(text).name for text in wanted}:
        raise failure
    found = ask_index([*wanted, asked.kind.requirement], environment)
    cuda = major_minor(found["cuda-toolkit"]) if "cuda-toolkit" in found else None
    if settings.arch and not settings.is_cpu and cuda is None:
        raise refusal("torch-without-cuda/index", torch=found["torch"], target=", ".join(settings.target))
    toolkit = ask_index(requirements_for(cuda), environment) if cuda and not settings.is_cpu else {}
    if as_json:
        print_document("plan", isolated={"build": found, "toolkit": toolkit})
        return 0
    use = f"CUDA {cuda}" if cuda else "the CPU"
    rows = [
        ("project", str(project.folder)),
        ("target", ", ".join(settings.target) or "none named"),
        ("isolated", f"a build of today has torch {found['torch']} for {use}"),
        ("with it", ", ".join(f"{name} {found[name]}" for name in sorted(found) if name != "torch")),
    ]
    if toolkit:
        rows.append(("toolkit", f"cuda-toolkit {toolkit['cuda-toolkit']} of PyPI, where none is installed"))
    show(format_facts(rows, whole=_PATHS))
    return 0


def render_extension_plan(plan: ExtensionPlan, width: int | None = None) -> str:
    """What is decided and why, then every command, then what is worth knowing; ``width`` is the terminal's."""
    blocks = [format_facts(_list_decisions(plan), width, _PATHS)]
    blocks += ["\n".join(_render_extension(extension, plan)) for extension in plan.extensions]
    blocks += [finding.render(plan.skipped) for finding in plan.findings]
    return "\n\n".join(blocks)


def _list_decisions(plan: ExtensionPlan) -> Iterator[tuple[str, str]]:
    torch, toolkit, targets = plan.inputs.torch, plan.inputs.toolkit, plan.project.settings.target
    yield "project", str(plan.project.folder)
    yield "target", ", ".join(targets) or "none named"
    whose = "" if plan.project.settings.arch else " (no target is named)"
    yield "device code", f"{plan.architectures}{whose}" if plan.architectures else "none"
    yield "PyTorch", f"{torch.version} in {torch.root}"
    yield "CUDA", f"{toolkit.version} in {toolkit.root} ({toolkit.origin})" if toolkit else "none"
    record = record_of(plan)
    yield "label", record.local_version or "none"
    yield "requires", ", ".join(record.requires)
    yield "jobs", f"{plan.jobs.running} ({plan.jobs.reason})"
    yield "compiler cache", " ".join(plan.inputs.launcher) or "none"
    yield "builds in", str(plan.folder)
    yield "links there", ", ".join(f"{name} -> {folder}" for name, folder in plan.layout.links.items())


def _render_extension(extension: PlannedExtension, plan: ExtensionPlan) -> Iterator[str]:
    yield f"{extension.extension.name} -> {extension.file_name}"
    for step in extension.steps:
        yield f"  # {step.description}"
        yield f"  {join_words(step.command, windows=plan.host_is_windows)}"


def plan_content(plan: ExtensionPlan) -> dict[str, Any]:
    torch, toolkit, record = plan.inputs.torch, plan.inputs.toolkit, record_of(plan)
    return {
        "project": str(plan.project.folder),
        "targets": list(plan.project.settings.target),
        "architectures": str(plan.architectures) if plan.architectures else None,
        "torch": fields_of(torch, "version", "root"),
        "toolkit": fields_of(toolkit, "version", "root") if toolkit else None,
        **fields_of(record, "local_version", "requires"),
        "jobs": plan.jobs.max_jobs,
        "launcher": list(plan.inputs.launcher),
        "folder": str(plan.folder),
        "links": {name: str(folder) for name, folder in plan.layout.links.items()},
        "extensions": [
            {
                "name": extension.extension.name,
                "file": extension.file_name,
                "steps": [fields_of(step, *_STEP_FIELDS) for step in extension.steps],
            }
            for extension in plan.extensions
        ],
        "findings": [
            {"severity": f.severity.value, **fields_of(f.problem, "id", "what", "remedy")}
            for f in plan.findings
        ],
        "skipped": skipped_errors(plan.findings, plan.skipped),
    }
