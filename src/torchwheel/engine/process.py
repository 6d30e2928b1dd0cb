"""Run long commands, whose output streams to the user and to a log at once, and explain from that why one failed."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from torchwheel.host.ninja import find_ninja
from torchwheel.host.programs import end_tree, find_program, on_path
from torchwheel.host.this import scripts_folder
from torchwheel.plan.build_plan import Plan
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.masking import mask, mask_line
from torchwheel.reporting.messages import number_fixes
from torchwheel.reporting.terminal import forward, shell_word
from torchwheel.system import supervisor as _supervisor
from torchwheel.system.files import open_log
from torchwheel.system.locks import record_session
from torchwheel.system.paths import exists

if TYPE_CHECKING:
    from torchwheel.diagnosis.failures import Diagnosis, Recognised

LineWatcher = Callable[[str], None]
Follow = Callable[[int], AbstractContextManager[Callable[[bytes], None]]]

_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ")
_EXTENDED_LIMIT_INFORMATION = 9
_KILL_ON_JOB_CLOSE = 0x2000
# Two time limits of 64 bits precede the flags.
_LIMIT_FLAGS_OFFSET = 16
_SIZES = {4: 112, 8: 144}
"""Bytes of JOBOBJECT_EXTENDED_LIMIT_INFORMATION, by pointer size; all other fields are 0, which means no limits."""


class NotStarted(Exception):
    """A command could not be started."""


class ProcessFailed(Exception):
    def __init__(self, program: str, code: int, log: Path, start: int = 0) -> None:
        super().__init__(f"{program} ended with status {code}; its output is in {log}")
        self.code, self.log, self.start = code, log, start


def logged_line(line: bytes) -> bytes:
    return _STAMP.sub(b"", line, count=1) if _STAMP.match(line) else line


def terminate(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        end_tree(process.pid)
    elif process.stdin is not None:
        # The supervisor sees the end of this pipe, and ends its session.
        process.stdin.close()
    try:
        # The supervisor sends SIGTERM, and SIGKILL after GRACE_SECONDS.
        process.wait(_supervisor.GRACE_SECONDS + 10)
    except subprocess.TimeoutExpired:
        if sys.platform == "win32":
            process.kill()
        else:
            _supervisor.end_session(process.pid)
        process.wait()


@contextmanager
def start_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command; it is ended with its child processes when the block or this process ends.

    If it fails or is killed, its child processes are ended as well. Its output is one stream, the process's ``stdout``;
    if the supervisor cannot start the command, it reports that there and exits with 127. If not even that starts,
    NotStarted is raised.
    """
    windows = sys.platform == "win32"
    # Isolated, because the environment is the build's: its PYTHONPATH must not change the supervisor's imports.
    supervisor = [] if windows else [sys.executable, "-I", "-S", _supervisor.__file__]
    try:
        process = subprocess.Popen(
            [*supervisor, *on_path(command, environment)],
            cwd=folder,
            env=dict(environment),
            # This pipe closes with torchwheel, even if that is killed; then the supervisor ends the command.
            stdin=subprocess.DEVNULL if windows else subprocess.PIPE,
            stdout=subprocess.PIPE,
            # One pipe for both, because the order of lines from two pipes is unknown.
            stderr=subprocess.STDOUT,
            # A session, because ninja runs each compiler in a process group of its own.
            start_new_session=not windows,
        )
    except OSError as error:
        raise NotStarted(str(error)) from error
    # Process ids are reused; together with its start time an id is unique.
    began = _supervisor.start_time(process.pid)
    with process, _job_object(process), record_session(process.pid):
        try:
            yield process
            process.wait()
        except BaseException:
            terminate(process)
            raise
        finally:
            # A killed supervisor cannot do this.
            if process.returncode and began is not None and _supervisor.is_session(process.pid, began):
                _supervisor.end_session(process.pid)


@contextmanager
def _time_limit(process: subprocess.Popen[bytes], limit: float | None) -> Iterator[None]:
    """End a process that takes longer; its status shows the signal."""
    timer = threading.Timer(limit or 0.0, terminate, [process])
    timer.daemon = True
    if limit is not None:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def run_streaming(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    watch: LineWatcher | None = None,
    show: Callable[[bytes], bytes] | None = None,
    follow: Follow | None = None,
    limit: float | None = None,
) -> None:
    """Run a command, forwarding each line of its output at once.

    Args:
        log: the file to append the output to, undecoded, with the UTC time before each line, and secrets masked.
        watch: called with each decoded line; an exception from it ends the process and is raised.
        show: converts a line for the screen; the log has it unchanged.
        follow: given the session leader's process id, it yields what shows lines instead of :func:`forward`.
        limit: seconds after which the command is ended.

    Raises:
        ProcessFailed: the command could not be started or ended with a status other than 0.
    """
    with open_log(log) as record:
        start = record.tell()

        def write(line: bytes) -> None:
            record.write(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()).encode() + line)

        write(f"$ {mask(subprocess.list2cmdline(command))}\n".encode())
        record.flush()
        try:
            with (
                start_process(command, folder, environment) as process,
                _time_limit(process, limit),
                follow(process.pid) if follow else nullcontext(forward) as say,
            ):
                assert process.stdout is not None
                for line in process.stdout:
                    masked = mask_line(line)
                    write(masked)
                    say(show(masked) if show else masked)
                    if watch is not None:
                        record.flush()
                        watch(line.decode("utf-8", "replace"))
                code = process.wait()
        except NotStarted as error:
            write(f"cannot be started: {error}\n".encode())
            raise ProcessFailed(command[0], 127, log, start) from error
        if code != 0:
            # The log records the failure, whatever the command itself printed.
            write(f"torchwheel: the command ended with exit status {code}\n".encode())
            raise ProcessFailed(command[0], code, log, start)


@contextmanager
def _job_object(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Windows: end a command and its child processes when torchwheel ends for any reason.

    The system closes a dead process's handles, and closing the job's last handle ends its processes; children started
    in the microseconds before the process joins the job are not included. On other systems this does nothing, because
    the supervisor does it. Source: https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-jobobject_extended_limit_information
    """
    if sys.platform != "win32":
        yield
        return
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    # The default is a C int, which would cut off half of a 64-bit handle.
    kernel.CreateJobObjectW.restype = ctypes.c_void_p
    job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None) or 0)
    size = _SIZES[ctypes.sizeof(ctypes.c_void_p)]

    def set_limits(flags: int) -> None:
        limits = ctypes.create_string_buffer(size)
        limits[_LIMIT_FLAGS_OFFSET : _LIMIT_FLAGS_OFFSET + 4] = flags.to_bytes(4, "little")
        kernel.SetInformationJobObject(job, _EXTENDED_LIMIT_INFORMATION, limits, size)

    set_limits(_KILL_ON_JOB_CLOSE)
    kernel.AssignProcessToJobObject(job, ctypes.c_void_p(int(process._handle)))
    try:
        yield
        if process.returncode == 0:
            # Processes that outlive a finished command, such as sccache's server, are meant to.
            set_limits(0)
    finally:
        kernel.CloseHandle(job)


_CHUNK = 1 << 20
_FULL_BYTES = 1 << 20
"""Free bytes below which the disk counts as full: too few for an object file of PyTorch."""

_MOST_LINES, _MOST_LINES_FROM, _LONGEST_LINE, _TAIL_BYTES = 8, 20, 300, 1 << 16
# Lines with the command itself, and its failure.
_OWN_LINES = ("$ ", "torchwheel: ")
# Ninja 1.13 prints the status too. Of several outputs the first is enough, and there is only one object.
_FAILED_STEP = re.compile(rb"FAILED: (?:\[code=\d+\] )?(?P<output>.*?\.o(?:bj)?(?=\s*$)|\S+)")


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
            change=number_fixes(diagnosis.cause.shown_fixes),
        )
    return Problem.of(id_, origin=origin, what=what, lines=last_lines(log, start))


def last_lines(log: Path, start: int, first: str = "") -> str:
    """The last lines of a failed command's output, or those from ``first`` on, without torchwheel's own."""
    with log.open("rb") as stream:
        begin = max(start, stream.seek(0, os.SEEK_END) - _TAIL_BYTES)
        stream.seek(begin)
        # The tail begins in the middle of a line, unless it is the whole output.
        raw = stream.read().splitlines()[1 if begin > start else 0 :]
    lines = [logged_line(line).decode("utf-8", "replace").rstrip() for line in raw]
    found = [line[:_LONGEST_LINE] for line in lines if line.strip() and not line.startswith(_OWN_LINES)]
    if not found:
        return f"{log} holds no output of it"
    # pip explains a conflict after its first error in many lines.
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
    lines = [cause.line] if cause.message is None else filter(cause.is_of_message, cause.excerpt)
    text = "\n".join(line.text.strip() for line in lines if line.text)
    return f"{cause.means.strip()} Line {before + cause.line.number} of {log}:\n{text}"
