"""Explain why a command of a build failed: a full disk, the cause that its log shows, or its last lines."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchwheel.engine.process import ProcessFailed, logged_line
from torchwheel.host.ninja import find_ninja
from torchwheel.host.programs import find_program
from torchwheel.host.this import scripts_folder
from torchwheel.plan.build_plan import Plan
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.messages import number_fixes
from torchwheel.reporting.terminal import shell_word
from torchwheel.system.paths import exists

if TYPE_CHECKING:
    from torchwheel.diagnosis.failures import Diagnosis, Recognised

_CHUNK = 1 << 20
_FULL_BYTES = 1 << 20
"""Free bytes below which the disk counts as full: too few for an object file of PyTorch."""

_MOST_LINES, _MOST_LINES_FROM, _LONGEST_LINE, _TAIL_BYTES = 8, 20, 300, 1 << 16
# Lines with the command itself, and its failure.
_OWN_LINES = ("$ ", "torchwheel: ")


def inner_failure(plan: Plan, failure: ProcessFailed) -> Problem:
    what = f"the tree's own build backend ({plan.tree.backend}) ended with status {failure.code}"
    # Show the paths of the checkout, because those files are to be edited.
    checkout, scripts = str(plan.tree.root), str(scripts_folder(plan.python_executable))
    show = partial(re.compile(_stage_pattern(plan)).sub, lambda _found: checkout)
    return build_failure("inner-build-failed", what, failure, checkout, plan.folders.build, scripts, show)


def build_failure(
    id_: str,
    what: str,
    failure: ProcessFailed,
    origin: str,
    folder: Path,
    scripts: str = "",
    show: Callable[[str], str] = str,
) -> Problem:
    """Return a failed build in ninja's ``folder`` as a problem: a full disk, or its cause and how to repeat its step.

    ``show`` changes the texts, but not the command that repeats the step; ``scripts`` may have ninja besides ``PATH``.
    """
    if full := full_disk(failure.log.parent, failure.log, f"{what}, and the disk is full"):
        return full
    problem = explained_failure(id_, what, failure.log, origin, failure.start)
    problem = replace(problem, what=show(problem.what), why=show(problem.why), remedy=show(problem.remedy))
    return _with_repetition(problem, failure, folder, scripts)


def _with_repetition(problem: Problem, failure: ProcessFailed, folder: Path, scripts: str) -> Problem:
    with failure.log.open("rb") as stream:
        stream.seek(failure.start)
        lines = (logged_line(line) for line in stream)
        failed = next((match for line in lines if (match := _FAILED_STEP.match(line))), None)
    if failed is None:
        return problem
    path = os.environ.get("PATH", "")
    ninja = "ninja" if find_program("ninja", None) else find_ninja({"PATH": os.pathsep.join([scripts, path])})
    words = (ninja or "ninja", "-v", "-C", str(folder), os.fsdecode(failed["output"]))
    command = " ".join(map(shell_word, words))
    return replace(problem, remedy=f"{problem.remedy}\nto repeat the failed step alone: {command}")


def in_checkout(plan: Plan) -> Callable[[bytes], bytes]:
    """Return a function that replaces the staged copy's paths in compiler output by the checkout's."""
    checkout = os.fsencode(plan.tree.root)
    place = re.compile(os.fsencode(_stage_pattern(plan)) + rb"(?=[/\\][^\s:;()\"']{1,400}[:(]\d)")
    return lambda line: place.sub(lambda _found: checkout, line) if plan.folders.staged else line


def _stage_pattern(plan: Plan) -> str:
    """A pattern for the staged copy's folder: absolute, or relative to CMake's folder through ccache's ``base_dir``."""
    whole = re.escape(str(plan.folders.source))
    if not plan.folders.staged:
        return whole
    shortened = os.path.relpath(plan.folders.source, plan.folders.build)
    return rf"(?:{whole}|(?<![^\s(\"']){re.escape(shortened)}(?=[/\\]))"


def explained_failure(id_: str, what: str, log: Path, origin: str, start: int = 0) -> Problem:
    """Return a failed build as a problem, with the cause if the log shows a known one, else its first errors."""
    diagnosis, before = diagnose_log(log, start)
    if diagnosis.cause is not None and diagnosis.explains:
        return Problem.of(
            f"{id_}/known",
            origin=origin,
            what=what,
            cause=diagnosis.cause.title,
            means=_describe_cause(diagnosis.cause, log, before),
            change=number_fixes(diagnosis.cause.change),
        )
    return Problem.of(id_, origin=origin, what=what, lines=last_lines(log, start))


def last_lines(log: Path, start: int, first: str = "") -> str:
    """Return the last lines of a failed command's output as a reason, without empty ones and torchwheel's own.

    ``first`` begins the first line to quote, if there is one: pip explains a conflict after it in many lines.
    """
    with log.open("rb") as stream:
        begin = max(start, stream.seek(0, os.SEEK_END) - _TAIL_BYTES)
        stream.seek(begin)
        # The tail begins in the middle of a line, unless it is the whole output.
        raw = stream.read().splitlines()[1 if begin > start else 0 :]
    lines = [logged_line(line).decode("utf-8", "replace").rstrip() for line in raw]
    found = [line[:_LONGEST_LINE] for line in lines if line.strip() and not line.startswith(_OWN_LINES)]
    if not found:
        return f"{log} holds no output of it"
    wanted = next((n for n, line in enumerate(found) if first and line.startswith(first)), len(found))
    quoted = found[wanted:][:_MOST_LINES_FROM] or found[-_MOST_LINES:]
    return "\n      ".join([f"the last lines of {log} are", *quoted])


def diagnose_log(log: Path, start: int = 0) -> tuple[Diagnosis, int]:
    """Diagnose a log from an offset in bytes; also return the number of lines before it."""
    from torchwheel.diagnosis.facts import Facts  # of failed builds alone
    from torchwheel.diagnosis.scanner import diagnose  # of failed builds alone

    with log.open("rb") as stream:
        before = 0
        while stream.tell() < start:
            before += stream.read(min(_CHUNK, start - stream.tell())).count(b"\n")
        return diagnose(stream, facts=Facts(platform.system())), before


def full_disk(folder: Path, log: Path, what: str) -> Problem | None:
    """Report a full disk of a build, whose folder need not exist yet; None if there is space."""
    usage = shutil.disk_usage(folder if exists(folder) else folder.parent)
    if usage.free >= _FULL_BYTES or not usage.total:
        return None
    return Problem.of("disk-full/build", origin=folder, what=what, log=log)


def _describe_cause(cause: Recognised, log: Path, before: int) -> str:
    text, number = cause.line.text.strip(), before + cause.line.number
    if cause.message is not None:
        text = "\n".join(
            line.text.strip() for line in filter(cause.is_of_message, cause.excerpt) if line.text
        )
    return f"{cause.means.strip()} Line {number} of {log}:\n{text}"


# Ninja 1.13 prints the status too. Of several outputs the first is enough, and there is only one object.
_FAILED_STEP = re.compile(rb"FAILED: (?:\[code=\d+\] )?(?P<output>.*?\.o(?:bj)?(?=\s*$)|\S+)")
