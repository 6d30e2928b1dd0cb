"""A plan's steps as a ``build.ninja``: one file over all extensions.

Source: https://ninja-build.org/manual.html (Ninja file reference)
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence

from torchwheel.extension.model import ExtensionPlan, Step

# deps = gcc keeps header dependencies in ninja's own log, which is read much faster than the files.
_VERSION = "1.5"


def ninja_text(plan: ExtensionPlan) -> str:
    """The content of ``build.ninja``; it runs in the plan's build folder."""
    windows = plan.host_is_windows
    lines = [f"ninja_required_version = {_VERSION}", ""]
    for rule in ("plain", "gnu", "msvc"):
        lines += [*_rule(rule), ""]
    for extension in plan.extensions:
        for step in extension.steps:
            lines += [*_build(step, plan.launcher if step.cacheable else (), windows=windows), ""]
    lines.append("default " + " ".join(_path(extension.output) for extension in plan.extensions))
    return "\n".join(lines) + "\n"


def _rule(name: str) -> Iterator[str]:
    yield f"rule {name}"
    yield "  command = $command"
    yield "  description = $what"
    if name == "gnu":
        yield "  depfile = $out.d"
    if name != "plain":
        yield f"  deps = {'gcc' if name == 'gnu' else 'msvc'}"


def _build(step: Step, launcher: Sequence[str], *, windows: bool) -> Iterator[str]:
    command = [*launcher, *step.command]
    text = subprocess.list2cmdline(command) if windows else shlex.join(command)
    rule = "gnu" if step.depfile else "msvc" if step.cacheable else "plain"
    yield f"build {_path(step.output)}: {rule} {' '.join(_path(path) for path in step.inputs)}"
    yield f"  command = {text.replace('$', '$$')}"
    yield f"  what = {step.description.replace('$', '$$')}"


def _path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
