"""Other programs: what one answers at once, such as its version; and what those of a session are doing, from /proc.

A command that prints nothing may still be at work.
"""

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
from dataclasses import dataclass
from pathlib import Path

from torchwheel import _supervisor
from torchwheel.terminal import counted, file_size, gib
from torchwheel.versions import read_range

SECONDS_TO_ANSWER = 10.0
"""A compiler behind a cold network share answers after seconds; what takes longer than this hangs."""
VERSION = re.compile(r"(?<!\d)\d{1,9}(?:\.\d{1,9}){1,9}")
"""A version in what a program prints."""
_ENDINGS = ".COM;.EXE;.BAT;.CMD"
_SECONDS_UNCOUNTED = 0.05
_SHOWN_OF_ANSWER = 60
"""Characters of a senseless answer that are enough to recognise it."""
_SHOWN, _CHARACTERS = 3, 160


class NoAnswer(Exception):
    """A program could not be started, or did not answer in time, or not what was asked."""


def find_program(name: str, path: str | None) -> str | None:
    """The first program of a name in a list of folders like ``PATH``; of a name with a folder, that one, if it is one.

    Unlike :func:`shutil.which` and CreateProcess, it does not look in the current folder on Windows, which may be a
    stranger's tree: https://learn.microsoft.com/windows/win32/api/processthreadsapi/nf-processthreadsapi-createprocessw
    """
    if sys.platform != "win32" or _has_folder(name):
        return shutil.which(name, path=path)
    folders = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    endings = os.environ.get("PATHEXT", _ENDINGS).split(os.pathsep)
    has_one = name.lower().endswith(tuple(map(str.lower, endings)))
    names = [name] if has_one else [name + ending for ending in endings]
    places = (os.path.join(folder, one) for folder in folders if folder for one in names)  # noqa: PTH118
    return next(filter(os.path.isfile, places), None)


def _has_folder(name: str) -> bool:
    return "/" in name or "\\" in name


def on_path(command: Sequence[str], environment: Mapping[str, str] | None) -> list[str]:
    """A command for CreateProcess, by which no program of the current folder is run; elsewhere as it is.

    Raises:
        FileNotFoundError: Windows has no such program on PATH.
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
    """Run a program and wait for its end; what it started ends with it where it takes too long.

    Args:
        command: the program with its arguments.
        environment: its environment variables; this process's if None.
        folder: where it runs; here if None.
        undecodable: what becomes of bytes that are no UTF-8; ``surrogateescape`` keeps the names of files.
        most_bytes: about how much it may print; of PyTorch's tree, git lists 2 MB.

    Raises:
        NoAnswer: it could not be started, took longer, or printed more.
    """
    try:
        process = subprocess.Popen(
            on_path(command, environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors=undecodable,
            cwd=folder,
            env=None if environment is None else dict(environment),
            # A group of its own: a wrapper's children hold the pipes open when the wrapper alone is killed.
            start_new_session=sys.platform != "win32",
        )
    except OSError as error:
        raise NoAnswer(f"{command[0]} cannot be started: {error.strerror}") from None
    with process:
        try:
            output, errors = _answer(process, command[0], seconds, most_bytes)
        except BaseException:
            _end(process)
            raise
    return subprocess.CompletedProcess(list(command), process.returncode, output, errors)


def _answer(process: subprocess.Popen[str], program: str, seconds: float, most_bytes: int) -> tuple[str, str]:
    """What a program prints until its end; on Windows that is not counted before."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return process.communicate(timeout=min(_SECONDS_UNCOUNTED, max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired as waiting:
            if sum(map(len, filter(None, (waiting.output, waiting.stderr)))) > most_bytes:
                raise NoAnswer(f"{program} printed more than {file_size(most_bytes)}") from None
            if time.monotonic() >= deadline:
                raise NoAnswer(f"{program} took longer than {seconds:g} seconds") from None


def serves(name: str, needed: str, environment: Mapping[str, str]) -> bool:
    """Whether the first program of a name on ``PATH`` says that it is of a version in a range such as ``>=3.20``."""
    path, versions = find_program(name, environment.get("PATH", "")), read_range(needed)
    if path is None:
        return False
    try:
        found = find_in_answer(VERSION, ask_program([path, "--version"], environment))
    except NoAnswer:
        return False
    return versions is None or versions.contains(found[0])


def find_in_answer(
    pattern: re.Pattern[str], answer: subprocess.CompletedProcess[str], *, in_errors: bool = False
) -> re.Match[str]:
    """What is looked for in what a program printed.

    Args:
        pattern: what is looked for.
        answer: from :func:`ask_program`.
        in_errors: look at its standard error, and do not mind its exit status.

    Raises:
        NoAnswer: it failed, or printed something else.
    """
    program = answer.args[0]
    if answer.returncode != 0 and not in_errors:
        raise NoAnswer(
            f"{program} ended with status {answer.returncode}{_shown(answer.stderr or answer.stdout)}"
        )
    match = pattern.search(answer.stderr if in_errors else answer.stdout)
    if match is None:
        raise NoAnswer(f"{program} does not tell its version{_shown(answer.stdout or answer.stderr)}")
    return match


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return f': "{line[:_SHOWN_OF_ANSWER]}"' if line else ", and prints nothing"


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and everything it started."""
    if sys.platform == "win32":
        end_tree(process.pid)
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def end_tree(pid: int) -> None:
    """Windows: end a process and everything it started; TerminateProcess would leave the compilers running."""
    taskkill = Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "taskkill.exe")
    subprocess.run([taskkill, "/T", "/F", "/PID", str(pid)], capture_output=True, check=False)


@dataclass(frozen=True)
class Process:
    """A program of a session.

    Attributes:
        parent: the number of the process that started it.
        words: its command line.
        seconds: how long it has been running.
        memory: its resident memory in bytes.
        peak: the most that it ever had, in bytes.
    """

    pid: int
    parent: int
    words: tuple[str, ...]
    seconds: float
    memory: int
    peak: int

    def __str__(self) -> str:
        command = " ".join(word for word in self.words if word)
        cut = command if len(command) <= _CHARACTERS else f"{command[:_CHARACTERS]}…"
        minutes = counted(round(self.seconds / 60), "minute")
        return f"{cut} (process {self.pid}, for {minutes}, {gib(self.memory)} of memory)"


def session(leader: int) -> list[Process]:
    """The programs of a session but for its leader; none where the system has no /proc."""
    found = (_process(pid) for pid in _supervisor.session_members(leader) if pid != leader)
    return [process for process in found if process is not None]


def longest_running(leader: int) -> list[Process]:
    """The programs of a session that start no others, the oldest first."""
    found = session(leader)
    parents = {process.parent for process in found}
    ends = (process for process in found if process.pid not in parents)
    return sorted(ends, key=lambda process: -process.seconds)[:_SHOWN]


def _process(pid: int) -> Process | None:
    fields = _supervisor.stat_fields(pid)
    folder = Path("/proc", str(pid))
    try:
        words = folder.joinpath("cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        status = dict(
            line.split(":", 1)
            for line in folder.joinpath("status").read_text("utf-8", "replace").splitlines()
        )
        # Source: proc_pid_status(5); a process that has ended has no memory any more.
        memory, peak = (int(status[name].removesuffix("kB")) * 1024 for name in ("VmRSS", "VmHWM"))
    except (OSError, ValueError, KeyError):
        return None
    if not fields:
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return Process(pid, int(fields[1]), tuple(map(os.fsdecode, words)), age, memory, peak)
