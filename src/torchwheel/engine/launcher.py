"""The launcher in front of each compiler: put into a build's folder, and told what compilers may take together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from torchwheel._files import atomic_write, write_if_changed
from torchwheel.engine import memory_launcher
from torchwheel.host.jobs import memory_kinds
from torchwheel.plan.model import Plan
from torchwheel.progress.record import measured

_MIB = 1 << 20
_MARGIN = 1.15
"""A file takes a little more at one time than at another, and what was seen of it are samples."""


def write_launcher(script: Path) -> tuple[str, ...]:
    """Put the launcher into a build's folder; returns the command that stands in front of compilers.

    The interpreter is that of the system, since an environment's own may be gone in the next build.
    """
    write_if_changed(script, Path(memory_launcher.__file__).read_text(encoding="utf-8"))
    python = getattr(sys, "_base_executable", "") or sys.executable
    return python, "-I", "-S", str(script), str(script.with_suffix(".json"))


def allow_memory(plan: Plan, jobs: int) -> None:
    """Tell the launcher what compilers may take together, and each alone: as measured earlier, or as its kind takes.

    Args:
        jobs: how many may run at once; with fewer than were planned, they may take less.
    """
    settings = plan.folders.launcher.with_suffix(".json")
    if plan.jobs.budget is None:
        settings.unlink(missing_ok=True)
        return
    known = measured(plan.folders.cache, plan.folders.record).values()
    architectures = len(plan.architectures.architectures) if plan.architectures else 0
    content = {
        "tokens": str(plan.folders.cache / "memory"),
        "budget": plan.jobs.budget * jobs // plan.jobs.max_jobs // _MIB,
        "known": {step.output: int(step.peak * _MARGIN / _MIB) + 1 for step in known if step.peak},
        "kinds": [(pattern, amount // _MIB) for pattern, amount in memory_kinds(architectures)],
    }
    atomic_write(settings, json.dumps(content))
