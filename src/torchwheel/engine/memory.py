"""Limit the memory of all compilers together, and retry with fewer jobs when a build runs out of memory.

The launcher before each compiler (:mod:`torchwheel.engine.memory_launcher`) is copied into the build's folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from torchwheel.engine.failure import diagnose_log
from torchwheel.engine.process import ProcessFailed
from torchwheel.host.jobs import job_figures, memory_groups, memory_kills, memory_kinds
from torchwheel.host.this import base_interpreter
from torchwheel.plan.build_plan import Plan
from torchwheel.progress.build_record import measured_steps
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import count_noun, say
from torchwheel.system.files import atomic_write, write_if_changed

T = TypeVar("T")

_OUT_OF_MEMORY = "out-of-memory"
_MIB = 1 << 20


def with_fewer_jobs(build: Callable[[int], T], jobs: int) -> T:
    """Run a build; if it runs out of memory, repeat it with half of the jobs, down to one.

    A killed program shows a lack of memory only if the kernel's count of such kills has grown. The error of ``build``
    has the failed process as its cause.
    """
    left = jobs
    while True:
        # Counted for each attempt, because earlier kills say nothing about this one.
        kills = memory_kills()
        try:
            result = build(left)
        except TorchwheelError as error:
            reported = any(problem.id == _OUT_OF_MEMORY for problem in error.problems)
            evidence = "" if reported else _memory_evidence(error.__cause__, kills)
            if not evidence:
                raise
            if left == 1:
                problem = error.problems[0]
                raise refusal(
                    _OUT_OF_MEMORY, project=problem.origin, evidence=evidence, lines=problem.why
                ) from error.__cause__
            say(f"memory ran out with {count_noun(left, 'job')}: {evidence}")
            left //= 2
            say(f"continuing with {count_noun(left, 'job')}")
            continue
        if left < jobs:
            say(f"done with {count_noun(left, 'job')}; -C jobs={left} begins so the next time")
        return result


def _memory_evidence(failure: BaseException | None, kills: int | None) -> str:
    """Describe the evidence that a process failed for lack of memory; ``kills`` is the kernel's count before it."""
    if not isinstance(failure, ProcessFailed):
        return ""
    cause = diagnose_log(failure.log, failure.start)[0].cause
    if cause is not None and cause.entry.memory == "reported":
        return cause.title
    after = memory_kills()
    ended = 0 if kills is None or after is None else after - kills
    if ended <= 0 or (cause is not None and cause.entry.memory != "killed"):
        return ""
    count = f"the kernel has ended {count_noun(ended, 'program')} for that reason"
    return count if cause is None else f"{cause.title}; {count}"


def write_launcher(script: Path) -> tuple[str, ...]:
    """Write the launcher into a build's folder; returns the command to put before compilers."""
    write_if_changed(script, Path(__file__).with_name("memory_launcher.py").read_text(encoding="utf-8"))
    # Python 3.10 names it after the environment's interpreter.
    python = os.path.realpath(base_interpreter())
    return python, "-I", "-S", str(script), str(script.with_suffix(".json"))


def allow_memory(plan: Plan, jobs: int) -> None:
    """Write the launcher's settings: the memory of all compilers, and of each, as measured or usual for its kind."""
    settings = plan.folders.launcher.with_suffix(".json")
    if plan.jobs.budget is None:
        settings.unlink(missing_ok=True)
        return
    known = measured_steps(plan.folders.cache, plan.folders.record).values()
    content = {
        "tokens": str(plan.folders.cache / "memory"),
        "budget": plan.jobs.budget * jobs // plan.jobs.max_jobs // _MIB,
        "keep": job_figures()["kept-free"] * jobs // _MIB,
        "groups": [(limit, str(usage), str(consists)) for limit, usage, consists in memory_groups()],
        "known": {step.output: step.peak // _MIB + 1 for step in known if step.peak},
        "kinds": [(pattern, amount // _MIB) for pattern, amount in memory_kinds(plan.architecture_count)],
    }
    atomic_write(settings, json.dumps(content))
