"""What a command that prints nothing any more is doing: the programs of its session, from /proc."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from torchwheel import _supervisor

_SHOWN, _CHARACTERS = 3, 160


@dataclass(frozen=True)
class Running:
    """A program of a session.

    Attributes:
        pid: its number.
        command: its command line, cut where it is long.
        minutes: how long it has been running.
        memory_bytes: its resident memory.
    """

    pid: int
    command: str
    minutes: float
    memory_bytes: int

    def __str__(self) -> str:
        memory = f"{self.memory_bytes / 2**30:.1f} GiB"
        return f"{self.command} (process {self.pid}, for {self.minutes:.0f} minutes, {memory} of memory)"


def longest_running(leader: int) -> list[Running]:
    """The programs of a session that start no others, the oldest first; empty where the system has no /proc."""
    members = _supervisor.session_members(leader)
    parents = {parent for pid in members if (parent := _parent(pid)) is not None}
    found = [_running(pid) for pid in members if pid not in parents and pid != leader]
    return sorted((one for one in found if one is not None), key=lambda one: -one.minutes)[:_SHOWN]


def _parent(pid: int) -> int | None:
    fields = _supervisor.stat_fields(pid)
    return int(fields[1]) if fields else None


def _running(pid: int) -> Running | None:
    started = _supervisor.start_time(pid)
    try:
        words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
        pages = int(Path("/proc", str(pid), "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    if started is None:
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
    command = " ".join(word.decode("utf-8", "backslashreplace") for word in words if word)
    cut = command if len(command) <= _CHARACTERS else f"{command[:_CHARACTERS]}…"
    return Running(pid, cut, age / 60, pages * os.sysconf("SC_PAGE_SIZE"))
