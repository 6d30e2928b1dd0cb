"""A compiler launcher for CMake: a compiler starts as soon as enough memory is free.

Ninja can limit the number of compilers but not their total memory, and one file of PyTorch needs 0.2 GiB, another 8. So
ninja gets as many jobs as there are cores, and each compiler waits here. A file's memory is known only after its first
compile; until then its kind's usual memory is assumed. If memory still runs short, the compiler that started last is
stopped, before the kernel kills any, and restarted when there is room. The oldest always continues.

It is a standalone script copied into the build folder: its path is part of every command, so it must not depend on
torchwheel's environment.

    python -I -S memory_launcher.py SETTINGS COMMAND...

``SETTINGS`` is a JSON file with the fields of :class:`LauncherSettings`.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl

TOKEN_MIB = 128
_SECONDS_BETWEEN_LOOKS = 0.05
_SECONDS_BETWEEN_LOOKS_AT_MEMORY = 0.1
_SECONDS_TO_END = 1.0
# As wide as a start time, because both are compared as bytes and overwrite each other.
_NOT_BEGUN = b"0" * 20


class LauncherSettings(NamedTuple):
    """The memory limits of compilers.

    Attributes:
        tokens: the folder of the locks, which all builds of a machine share.
        groups: control groups with a limit: its bytes, and the files with the usage and its breakdown.
        kinds: a regular expression to search in the command, and MiB; the first match wins.
    """

    tokens: str
    budget: int
    keep: int
    groups: list[tuple[int, str, str]]
    known: dict[str, int]
    kinds: list[tuple[str, int]]


class Turn:
    """One command's share of the memory, as locks on tokens, so that a killed command leaves nothing behind."""

    def __init__(self, settings: LauncherSettings, command: list[str]) -> None:
        self.output = next((after for word, after in pairwise(command) if word == "-o"), "")
        text = " ".join(command)
        of_kind = (mib for pattern, mib in settings.kinds if re.search(pattern, text))
        # The last pattern is empty, so every command has a kind.
        mib = settings.known.get(self.output) or next(of_kind)
        self._total = max(1, settings.budget // TOKEN_MIB)
        self.wanted = min(-(-mib // TOKEN_MIB), self._total)
        self._keep, self._groups = settings.keep, settings.groups
        self._folder = Path(settings.tokens)
        self._held: dict[int, int] = {}

    def take(self) -> None:
        """Wait in a queue for the tokens, and until that memory is free or no other command holds any."""
        self._folder.mkdir(parents=True, exist_ok=True)
        queue = self._open_token("queue")
        fcntl.flock(queue, fcntl.LOCK_EX)
        while not self._has_enough():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        # Other commands read here who started last when memory is short.
        # This clock is the same in all processes, and cannot be set back.
        began = b"%020d" % time.monotonic_ns()
        for token in self._held.values():
            os.pwrite(token, began, 0)
        os.close(queue)

    def _has_enough(self) -> bool:
        for number in range(self._total):
            if len(self._held) >= self.wanted:
                break
            if number not in self._held and (token := self._try_lock(str(number))) is not None:
                # Overwrite the last holder's time, because this command is still waiting.
                os.pwrite(token, _NOT_BEGUN, 0)
                self._held[number] = token
        if len(self._held) < self.wanted:
            return False
        has_room = free_mib(self._groups) >= self.wanted * TOKEN_MIB + self._keep
        return has_room or not self._start_times_of_others()

    def give_back(self) -> None:
        for token in self._held.values():
            os.close(token)
        self._held.clear()
        self.wanted = min(2 * self.wanted, self._total)

    def stop_if_short(self, pid: int) -> bool:
        """Stop the command if memory is short and it started last of several; returns whether it was stopped."""
        if not self._held or free_mib(self._groups) >= self._keep:
            return False
        if (ending := self._try_lock("ending")) is None:
            return False  # another command is being stopped
        try:
            others = self._start_times_of_others()
            own = os.pread(next(iter(self._held.values())), len(_NOT_BEGUN), 0)
            if not others or max(others) > own or free_mib(self._groups) >= self._keep:
                return False
            _end_tree(pid)
            return True
        finally:
            os.close(ending)

    def _start_times_of_others(self) -> list[bytes]:
        began = []
        for number in set(range(self._total)) - set(self._held):
            if (token := self._try_lock(str(number))) is None:
                began.append((self._folder / str(number)).read_bytes())
            else:
                os.close(token)
        return [when for when in began if when != _NOT_BEGUN]

    def _open_token(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _try_lock(self, name: str) -> int | None:
        token = self._open_token(name)
        try:
            fcntl.flock(token, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(token)
            return None
        return token


def free_mib(groups: list[tuple[int, str, str]]) -> int:
    """Free MiB on the machine and in each control group with a limit; file caches count as free.

    Sources: proc_meminfo(5), MemAvailable; cgroup-v2.html, memory.stat.
    """
    available = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert available
    amounts = [int(available[1]) << 10]
    for limit, usage, consists in groups:
        parts = dict(line.split()[:2] for line in Path(consists).read_text().splitlines())
        cached = int(parts["inactive_file"]) + int(parts["active_file"])
        amounts.append(limit - int(Path(usage).read_text()) + cached)
    return min(amounts) >> 20


def _end_tree(pid: int) -> None:
    """End a command with its descendants; SIGTERM to the command first, so that it does not report their end."""
    below, numbers = [], _find_descendants(pid)
    for one in numbers:
        with suppress(ProcessLookupError):
            below.append(os.pidfd_open(one))
    os.kill(pid, signal.SIGTERM)
    process = os.pidfd_open(pid)
    if not _has_ended(process, _SECONDS_TO_END):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for one in below:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(one, signal.SIGKILL)
    # Wait until their memory is free, because other commands would be stopped as well.
    for one in (process, *below):
        _has_ended(one, _SECONDS_TO_END)
        os.close(one)
    # nvcc 12.4 leaves its temporary files, named after its process id; in a tmpfs they use memory.
    for number in (pid, *numbers):
        for file in Path(os.environ.get("TMPDIR") or "/tmp").glob(f"tmpxft_{number:08x}_*"):
            with suppress(OSError):
                file.unlink()


def _find_descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[1-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
            parents.setdefault(int(parent), []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found[1:]


def _has_ended(process: int, seconds: float) -> bool:
    """Whether a process, given by its descriptor, ends within ``seconds``."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _run_command(command: list[str], turn: Turn | None) -> int:
    """Run a command, again if it was stopped for lack of memory; returns its status from waitpid."""
    while True:
        began = time.monotonic()
        try:
            pid = os.posix_spawnp(command[0], command, os.environ)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
        if turn is None or not _was_stopped(pid, turn):
            return os.waitpid(pid, 0)[1]
        print(
            f"torchwheel: memory ran short: {turn.output} was stopped after {time.monotonic() - began:.0f} s "
            "and begun again",
            file=sys.stderr,
        )
        with suppress(OSError, ValueError, AssertionError):
            turn.give_back()
            turn.take()


def _was_stopped(pid: int, turn: Turn) -> bool:
    """Watch a command until it ends, is stopped for lack of memory, or cannot be watched."""
    # Kernels before 5.3 have no process descriptors.
    with suppress(OSError, ValueError, AssertionError):
        process = os.pidfd_open(pid)
        while not _has_ended(process, _SECONDS_BETWEEN_LOOKS_AT_MEMORY):
            if turn.stop_if_short(pid):
                os.close(process)
                return True
        os.close(process)
    return False


def _main(settings: str, *command: str) -> None:
    # On Ctrl-C, Python would print a traceback for every running compiler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    turn = None
    # An error here must not stop a compiler; without a turn the launcher has no effect.
    with suppress(OSError, ValueError, TypeError, AttributeError, AssertionError, StopIteration):
        turn = Turn(LauncherSettings(**json.loads(Path(settings).read_text(encoding="utf-8"))), list(command))
        turn.take()
    status = _run_command(list(command), turn)
    # End in the same way: a compiler that was killed may be a sign of too little memory.
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _main(*sys.argv[1:])
