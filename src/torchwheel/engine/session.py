"""A build in a folder of torchwheel's cache: locked, followed, with its compiler cache, and within the memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torchwheel.engine.cache import record_use, remove_orphans
from torchwheel.engine.cache_session import CompilerCache
from torchwheel.engine.process import ProcessFailed, diagnose_log
from torchwheel.engine.record import BuildInputs, invalidate_unseen_changes
from torchwheel.host.jobs import job_figures, memory_groups, memory_kills, memory_kinds
from torchwheel.host.this import base_interpreter, make_private
from torchwheel.plan.build_plan import Plan
from torchwheel.progress.build_record import RECORD, Build, measured_steps
from torchwheel.progress.follow import Follower, follow_build
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import count_noun, say
from torchwheel.system.files import atomic_write, write_if_changed
from torchwheel.system.locks import file_lock, folder_lock

T = TypeVar("T")

_OUT_OF_MEMORY = "out-of-memory"
_MIB = 1 << 20


def require_writable(folder: Path) -> None:
    """Check before the build, which may take hours, that its result can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "you have no write permission there"
    except OSError as failure:
        reason = failure.strerror or str(failure)
    if reason:
        raise refusal("output-not-writable", folder=folder, reason=reason)


@contextmanager
def held_folder(
    folder: Path, source: Path, cache: Path, lock: Path, *, in_place: bool = False
) -> Iterator[None]:
    """Hold the folder of a build of ``source``, and the source itself if built ``in_place``; another build waits."""

    def wait() -> None:
        say(f"waiting for another build of {source} to end")

    # setuptools' own backend, like frontends, also builds each sdist in a folder that it deletes afterwards.
    remove_orphans(cache)
    # Private, because CMake's cache has all options, including secrets.
    make_private(folder)
    with folder_lock(source, lock, wait) if in_place else file_lock(lock, wait):
        folder.mkdir(parents=True, exist_ok=True)
        record_use(folder, source)
        yield


@dataclass(frozen=True)
class Session:
    """A running build; ``more`` are variables with which the compiler cache notices what ninja cannot."""

    follower: Follower
    compiler_cache: CompilerCache
    more: Mapping[str, str]
    jobs: int

    def compiling(self, environment: Mapping[str, str]) -> AbstractContextManager[dict[str, str]]:
        """Run the compiler cache; yields the environment for the compilers."""
        return self.compiler_cache.running({**environment, **self.more})

    def run(self, environment: Mapping[str, str], compile_with: Callable[[Mapping[str, str], int], T]) -> T:
        """Compile in an environment with the compiler cache; with fewer jobs again if the memory runs out."""
        with self.compiling(environment) as whole:
            return with_fewer_jobs(lambda jobs: compile_with(whole, jobs), self.jobs)


@contextmanager
def build_session(
    build: Build, inputs: BuildInputs, cache: Path, compiler_cache: CompilerCache
) -> Iterator[Session]:
    """Follow a build in a held folder, whose outputs with changed inputs are invalidated first."""
    record = Path(build.log).with_name(RECORD)
    with (
        invalidate_unseen_changes(inputs) as more,
        follow_build(build, record, cache, inputs.environment) as follower,
    ):
        yield Session(follower, compiler_cache, more, build.jobs)


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
            if not (evidence := _memory_evidence(error, kills)):
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


def _memory_evidence(error: TorchwheelError, kills: int | None) -> str:
    """Describe the evidence that a process failed for lack of memory; ``kills`` is the kernel's count before it."""
    failure, reported = error.__cause__, any(problem.id == _OUT_OF_MEMORY for problem in error.problems)
    if reported or not isinstance(failure, ProcessFailed):
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
    """Write memory_launcher.py into a build's folder; returns the command to put before compilers."""
    write_if_changed(script, Path(__file__).with_name("memory_launcher.py").read_text(encoding="utf-8"))
    # The system's interpreter, because an environment's may not exist in the next build. Python 3.10 names it after
    # that one.
    python = os.path.realpath(base_interpreter())
    return python, "-I", "-S", str(script), str(script.with_suffix(".json"))


def allow_memory(plan: Plan, jobs: int) -> None:
    """Write the launcher's settings: the memory of all compilers, and of each, as measured or usual for its kind.

    With fewer jobs than planned, the memory of all is smaller.
    """
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
