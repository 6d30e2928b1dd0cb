"""Running a plan's steps where there is no ninja: everything, every time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from torchwheel.extension.model import ExtensionPlan, Step

NOTE = (
    'torchwheel: there is no ninja here, so every source is compiled again each time; add "ninja" to '
    "build-system.requires (without build isolation: pip install ninja)"
)


def run_steps(plan: ExtensionPlan, environment: Mapping[str, str], log: Path) -> bool:
    """Run all steps, as many compilers at once as the plan has jobs.

    Args:
        plan: the plan; its folder has been written.
        environment: the commands' whole environment.
        log: receives every command's output.

    Returns:
        Whether all of them succeeded; after a failure no other command is started.
    """
    print(NOTE, file=sys.stderr, flush=True)
    steps = [step for extension in plan.extensions for step in extension.steps]
    compiles = [step for step in steps if step.cacheable]
    with log.open("w", encoding="utf-8", errors="replace") as record:

        def report(step: Step, done: subprocess.CompletedProcess[str]) -> bool:
            text = f"{step.description}\n{done.stdout}"
            print(text, end="", flush=True)
            record.write(text if done.returncode == 0 else f"{text}FAILED: {step.output}\n")
            return done.returncode == 0

        with ThreadPoolExecutor(plan.jobs.max_jobs) as pool:
            runs = [
                pool.submit(_run, [*plan.launcher, *step.command], plan, step, environment)
                for step in compiles
            ]
            for step, run in zip(compiles, runs, strict=True):
                if not report(step, run.result()):
                    pool.shutdown(cancel_futures=True)
                    return False
        others = (step for step in steps if not step.cacheable)
        return all(report(step, _run(step.command, plan, step, environment)) for step in others)


def _run(
    command: Sequence[str], plan: ExtensionPlan, step: Step, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    (plan.folder / step.output).parent.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        command,
        cwd=plan.folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
