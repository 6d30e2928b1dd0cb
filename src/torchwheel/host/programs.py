"""Run other programs for a quick answer, such as their version, and inspect the processes of a session in /proc."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torchwheel.reporting.terminal import file_size
from torchwheel.system import supervisor as _supervisor
from torchwheel.versions import read_range

SECONDS_TO_ANSWER = 10.0
"""A compiler on a cold network share takes seconds; anything slower than this hangs."""
VERSION = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9}){1,9}")
"""A version in a program's output."""
_SECONDS_UNCOUNTED = 0.05
_SHOWN_OF_ANSWER = 60
"""Characters of an unexpected answer to quote."""
_PRINTED_NOTHING = ", and prints nothing"


class NoAnswer(Exception):
    """A program could not be started, did not answer in time, or gave an unexpected answer."""


def find_program(name: str, path: str | None) -> str | None:
    """Find a program in a list of folders like ``PATH``; a name with a folder is checked as it is.

    Unlike :func:`shutil.which` and CreateProcess, it ignores the current folder on Windows, which may be an untrusted
    tree: https://learn.microsoft.com/windows/win32/api/processthreadsapi/nf-processthreadsapi-createprocessw
    """
    if sys.platform != "win32" or _has_folder(name):
        return shutil.which(name, path=path)
    folders = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    endings = os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(os.pathsep)
    has_one = name.lower().endswith(tuple(map(str.lower, endings)))
    names = [name] if has_one else [name + ending for ending in endings]
    places = (os.path.join(folder, one) for folder in folders if folder for one in names)  # noqa: PTH118
    return next(filter(os.path.isfile, places), None)


def _has_folder(name: str) -> bool:
    return "/" in name or "\\" in name


def program_stem(program: str) -> str:
    name = re.split(r"[\\/]", program)[-1]
    return name[:-4] if name.lower().endswith(".exe") else name


def is_same_program(named: str, path: str) -> bool:
    """Whether a program that is named, by its path or as one of ``PATH``, is the one at a path."""
    # Even where links lead to one file, because clang++ and ccache's links do what their names say.
    same_name = program_stem(named) == program_stem(path)
    return same_name and (not _has_folder(named) or os.path.realpath(named) == os.path.realpath(path))


def on_path(command: Sequence[str], environment: Mapping[str, str] | None) -> list[str]:
    """Resolve a command for CreateProcess, so that no program of the current folder is run; unchanged elsewhere.

    FileNotFoundError if there is no such program on PATH.
    """
    if sys.platform != "win32" or _has_folder(command[0]):
        return list(command)
    found = find_program(command[0], None if environment is None else environment.get("PATH", ""))
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "it is not on PATH", command[0])
    return [found, *command[1:]]


def ask_program(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS_TO_ANSWER,
    folder: Path | None = None,
    undecodable: str = "replace",
    most_bytes: int = 16_000_000,
) -> subprocess.CompletedProcess[str]:
    """Run a program and wait for it; on a timeout it is ended with its child processes.

    Args:
        undecodable: the error handler for bytes that are not UTF-8; ``surrogateescape`` preserves file names.
        most_bytes: approximate limit of its output; git lists 2 MB for PyTorch's tree.

    Raises:
        NoAnswer: it could not be started, took longer, or printed more.
    """
    try:
        process = subprocess.Popen(
            on_path(command, environment),
            # A program that asks a question must not wait for an answer.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors=undecodable,
            cwd=folder,
            env=None if environment is None else dict(environment),
            # A new process group: a wrapper's children would hold the pipes open if only the wrapper were killed.
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        raise NoAnswer(f"{command[0]} cannot be started: {error.strerror}") from None
    with process:
        try:
            output, errors = _wait_for_output(process, command[0], seconds, most_bytes)
        except BaseException:
            if sys.platform == "win32":
                end_tree(process.pid)
            else:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)


def _wait_for_output(
    process: subprocess.Popen[str], program: str, seconds: float, most_bytes: int
) -> tuple[str, str]:
    """Wait for a program's output; on Windows its size is checked only at the end."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return process.communicate(timeout=min(_SECONDS_UNCOUNTED, max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired as waiting:
            if sum(map(len, filter(None, (waiting.output, waiting.stderr)))) > most_bytes:
                raise NoAnswer(f"{program} printed more than {file_size(most_bytes)}") from None
            if time.monotonic() >= deadline:
                raise NoAnswer(f"{program} took longer than {seconds:g} seconds") from None


def has_program_version(name: str, needed: str, environment: Mapping[str, str]) -> bool:
    """Whether the first program of a name on ``PATH`` has a version in a range such as ``>=3.20``."""
    path, versions = find_program(name, environment.get("PATH", "")), read_range(needed)
    with suppress(NoAnswer):
        if path is not None:
            found = find_in_answer(VERSION, ask_program([path, "--version"], environment))
            return versions is None or versions.contains(found[0])
    return False


def find_in_answer(
    pattern: re.Pattern[str], answer: subprocess.CompletedProcess[str], *, in_errors: bool = False
) -> re.Match[str]:
    """Search a program's output, or with ``in_errors`` its standard error, whatever its exit status.

    Raises:
        NoAnswer: the program failed, or the pattern was not found.
    """
    program = answer.args[0]
    if answer.returncode != 0 and not in_errors:
        quoted = _quote_answer(answer.stderr or answer.stdout)
        raise NoAnswer(f"{program} ended with status {answer.returncode}{quoted}")
    if match := pattern.search(answer.stderr if in_errors else answer.stdout):
        return match
    raise NoAnswer(f"{program} does not tell its version{_quote_answer(answer.stdout or answer.stderr)}")


def _quote_answer(text: str) -> str:
    line = " ".join(text.split())
    return f': "{line[:_SHOWN_OF_ANSWER]}"' if line else _PRINTED_NOTHING


def printed_nothing(reason: str) -> bool:
    """Whether the text of a :class:`NoAnswer` is about a program that printed nothing, as ``false`` and ``true``."""
    return reason.endswith(_PRINTED_NOTHING)


def end_tree(pid: int) -> None:
    """Windows: end a process and everything it started; TerminateProcess would leave the compilers running."""
    # By its path, because the current folder may be an untrusted tree.
    taskkill = Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
    subprocess.run([taskkill, "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    words: tuple[str, ...]
    seconds: float
    memory: int
    peak: int


def session_processes(leader: int) -> list[Process]:
    found = (_read_process(pid) for pid in _supervisor.session_members(leader) if pid != leader)
    return [process for process in found if process is not None]


def _read_process(pid: int) -> Process | None:
    fields = _supervisor.stat_fields(pid)
    folder = Path("/proc", str(pid))
    try:
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        lines = (folder / "status").read_text("utf-8", "replace").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        # Source: proc_pid_status(5); a process that has ended has no such lines.
        memory, peak = (int(status[name].removesuffix("kB")) * 1024 for name in ("VmRSS", "VmHWM"))
    except (OSError, ValueError, KeyError):
        return None
    if not fields:
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return Process(pid, int(fields[1]), tuple(map(os.fsdecode, words)), age, memory, peak)
