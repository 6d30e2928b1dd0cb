"""What the programs of a session are doing, from /proc: a command that prints nothing may still be at work."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from torchwheel import _supervisor
from torchwheel.terminal import counted, gib

_SHOWN, _CHARACTERS = 3, 160


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
