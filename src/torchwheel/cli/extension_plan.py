"""The plan of a project's extensions, as a page and as the content of a document."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from torchwheel.extension.model import ExtensionPlan, PlannedExtension, Step
from torchwheel.terminal import facts


def render_extension_plan(plan: ExtensionPlan, sources: Sequence[str], width: int) -> str:
    """What is decided and why, then every command, then what is worth knowing.

    Args:
        plan: the plan.
        sources: the sources to show the commands of; empty for all commands.
        width: columns of the page; commands are not wrapped, so that they can be copied.
    """
    blocks = [facts(_decisions(plan), width)]
    for extension in plan.extensions:
        blocks.append("\n".join(_extension(extension, plan, sources)))
    blocks += [finding.render() for finding in plan.findings]
    return "\n\n".join(blocks)


def _decisions(plan: ExtensionPlan) -> Iterator[tuple[str, str]]:
    torch, toolkit, targets = plan.torch, plan.toolkit, plan.settings.target_names
    yield "project", str(plan.project)
    yield "target", ", ".join(targets) or "none named"
    yield "device code", f"{plan.architectures}{_whose(plan)}" if plan.architectures else "none"
    yield "PyTorch", f"{torch.version} in {torch.root}"
    yield "CUDA", f"{toolkit.version} in {toolkit.root} ({toolkit.origin})" if toolkit else "none"
    yield "label", plan.local_version or "none"
    yield "requires", ", ".join(plan.requires)
    yield "jobs", f"{plan.jobs.max_jobs} ({plan.jobs.reason})"
    yield "compiler cache", " ".join(plan.launcher) or "none"
    yield "builds in", str(plan.folder)
    yield "links there", ", ".join(f"{name} -> {folder}" for name, folder in plan.links.items())


def _whose(plan: ExtensionPlan) -> str:
    return "" if plan.settings.architectures else " (nobody asked for others)"


def _extension(extension: PlannedExtension, plan: ExtensionPlan, sources: Sequence[str]) -> Iterator[str]:
    yield f"{extension.extension.name} -> {extension.file_name}"
    for step in _shown(extension, sources):
        yield f"  # {step.description}"
        yield f"  {_line(step, windows=plan.host_is_windows)}"


def _shown(extension: PlannedExtension, sources: Sequence[str]) -> list[Step]:
    return [step for step in extension.steps if not sources or set(step.sources) & set(sources)]


def _line(step: Step, *, windows: bool) -> str:
    return subprocess.list2cmdline(step.command) if windows else shlex.join(step.command)


def plan_content(plan: ExtensionPlan, sources: Sequence[str]) -> dict[str, Any]:
    """What ``torchwheel extension plan --json`` prints, without its heading.

    Args:
        plan: the plan.
        sources: the sources to show the commands of; empty for all commands.
    """
    toolkit = plan.toolkit
    return {
        "project": str(plan.project),
        "targets": list(plan.settings.target_names),
        "architectures": str(plan.architectures) if plan.architectures else None,
        "torch": {"version": plan.torch.version, "root": str(plan.torch.root)},
        "toolkit": {"version": toolkit.version, "root": toolkit.root} if toolkit else None,
        "local_version": plan.local_version,
        "requires": list(plan.requires),
        "jobs": plan.jobs.max_jobs,
        "launcher": list(plan.launcher),
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
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "sources": list(step.sources),
        "output": step.output,
        "command": list(step.command),
        "architectures": str(step.architectures) if step.architectures else None,
    }
