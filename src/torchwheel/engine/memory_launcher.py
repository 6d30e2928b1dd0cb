"""A compiler launcher for CMake: a compiler starts as soon as the memory that it will take is free.

Ninja can bound how many compilers run, not what they take together, and one file of PyTorch takes 0.2 GiB and another
8. So ninja gets as many jobs as there are cores, and each of them waits here. What a file takes is known only after its
first compile. So each is let in with what its kind usually takes, and where memory runs short after all, the one that
began last is stopped, before the kernel kills any, and begun again when there is room. The oldest always goes on.

It is a script of its own that is copied into the build folder: its path is part of every command, so it must not change
with the environment torchwheel runs in.

    python -I -S memory_launcher.py SETTINGS COMMAND...

``SETTINGS`` is a JSON file with what :class:`Settings` says.
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
_NOT_BEGUN = b"0" * 20


class Settings(NamedTuple):
    """What compilers may take, together and each alone.

    Attributes:
        tokens: the folder of the locks, which builds of one machine share.
        budget: MiB for all compilers together.
        keep: MiB that stay free.
        groups: control groups with a limit: its bytes, and the files of what is used and of what it consists of.
        known: MiB by the command's output.
        kinds: a regular expression that is searched in the command, and MiB; the first that is found counts.
    """

    tokens: str
    budget: int
    keep: int
    groups: list[tuple[int, str, str]]
    known: dict[str, int]
    kinds: list[tuple[str, int]]


class Turn:
    """What one command holds of the memory that is handed out; locks, so nothing is left behind by one that is killed.

    Attributes:
        wanted: tokens to hold while the command runs; 0 for what is never waited for, and never stopped.
    """

    def __init__(self, settings: Settings, command: list[str]) -> None:
        self.output = next((after for word, after in pairwise(command) if word == "-o"), "")
        text = " ".join(command)
        of_kind = (mib for pattern, mib in settings.kinds if re.search(pattern, text))
        mib = settings.known.get(self.output) or next(of_kind)
        self._total = max(1, settings.budget // TOKEN_MIB)
        self.wanted = min(-(-mib // TOKEN_MIB), self._total)
        self._keep, self._groups = settings.keep, settings.groups
        self._folder = Path(settings.tokens)
        self._held: dict[int, int] = {}

    def take(self) -> None:
        """Wait for the tokens, and until as much memory is free, or nobody else holds any.

        Those who wait stand in a queue, so that the largest gets its turn.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        queue = self._open("queue")
        fcntl.flock(queue, fcntl.LOCK_EX)
        while not self._enough():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        # Who began last is read from here by those who look while memory is short.
        began = b"%020d" % time.monotonic_ns()
        for token in self._held.values():
            os.pwrite(token, began, 0)
        os.close(queue)

    def _enough(self) -> bool:
        for number in range(self._total):
            if len(self._held) >= self.wanted:
                break
            if number not in self._held and (token := self._lock(str(number))) is not None:
                # What the last holder wrote says nothing of one that waits.
                os.pwrite(token, _NOT_BEGUN, 0)
                self._held[number] = token
        if len(self._held) < self.wanted:
            return False
        return free_mib(self._groups) >= self.wanted * TOKEN_MIB + self._keep or not self._others()

    def give_back(self) -> None:
        """Let others have the tokens, and want twice as many the next time."""
        for token in self._held.values():
            os.close(token)
        self._held.clear()
        self.wanted = min(2 * self.wanted, self._total)

    def stop_if_short(self, pid: int) -> bool:
        """Stop the command if memory runs short and it began last of several; whether it was stopped."""
        if not self._held or free_mib(self._groups) >= self._keep:
            return False
        ending = self._lock("ending")
        if ending is None:
            return False  # somebody is being stopped just now
        try:
            others = self._others()
            own = os.pread(next(iter(self._held.values())), len(_NOT_BEGUN), 0)
            if not others or max(others) > own or free_mib(self._groups) >= self._keep:
                return False
            _end(pid)
            return True
        finally:
            os.close(ending)

    def _others(self) -> list[bytes]:
        """When those began who hold other tokens and run."""
        began = []
        for number in set(range(self._total)) - set(self._held):
            token = self._lock(str(number))
            if token is None:
                began.append((self._folder / str(number)).read_bytes())
            else:
                os.close(token)
        return [when for when in began if when != _NOT_BEGUN]

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def _lock(self, name: str) -> int | None:
        token = self._open(name)
        try:
            fcntl.flock(token, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(token)
            return None
        return token


def free_mib(groups: list[tuple[int, str, str]]) -> int:
    """MiB that may still be taken, on the machine and in each control group with a limit; caches of files are free.

    Sources: proc_meminfo(5), MemAvailable; cgroup-v2.html and cgroup-v1/memory.html, memory.stat.
    """
    available = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert available
    amounts = [int(available[1]) << 10]
    for limit, usage, consists in groups:
        parts = dict(line.split()[:2] for line in Path(consists).read_text().splitlines())
        # Version 1 counts the groups below in fields of their own.
        cached = (parts.get(f"total_{name}", parts.get(name, 0)) for name in ("inactive_file", "active_file"))
        amounts.append(limit - int(Path(usage).read_text()) + sum(map(int, cached)))
    return min(amounts) >> 20


def _end(pid: int) -> None:
    """End a command and what it started; the command itself first and politely, so that it says nothing of the rest."""
    below, numbers = [], _below(pid)
    for one in numbers:
        with suppress(ProcessLookupError):
            below.append(os.pidfd_open(one))
    os.kill(pid, signal.SIGTERM)
    process = os.pidfd_open(pid)
    if not _ended(process, _SECONDS_TO_END):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for one in below:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(one, signal.SIGKILL)
    # Their memory is free only then, and whoever looks before that is stopped as well.
    for one in (process, *below):
        _ended(one, _SECONDS_TO_END)
        os.close(one)
    # nvcc 12.4 leaves its files, named after its own number; where that folder is in memory, they take of it.
    for number in (pid, *numbers):
        for file in Path(os.environ.get("TMPDIR") or "/tmp").glob(f"tmpxft_{number:08x}_*"):
            with suppress(OSError):
                file.unlink()


def _below(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[1-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
            parents.setdefault(int(parent), []).append(int(folder.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found[1:]


def _ended(process: int, seconds: float) -> bool:
    """Whether a process, given by its descriptor, ends within some seconds."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _run(command: list[str], turn: Turn | None) -> int:
    """Run a command, again where it was stopped for lack of memory; returns what waitpid says of it."""
    while True:
        began = time.monotonic()
        try:
            pid = os.posix_spawnp(command[0], command, os.environ)
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
        if turn is None or not _stopped(pid, turn):
            return os.waitpid(pid, 0)[1]
        print(
            f"torchwheel: memory ran short: {turn.output} was stopped after {time.monotonic() - began:.0f} s "
            "and begun again",
            file=sys.stderr,
        )
        with suppress(OSError, ValueError, AssertionError):
            turn.give_back()
            turn.take()


def _stopped(pid: int, turn: Turn) -> bool:
    """Whether a command was stopped for lack of memory; if not, it has ended or cannot be watched."""
    # Kernels before 5.3 have no descriptors of processes.
    with suppress(OSError, ValueError, AssertionError):
        process = os.pidfd_open(pid)
        while not _ended(process, _SECONDS_BETWEEN_LOOKS_AT_MEMORY):
            if turn.stop_if_short(pid):
                os.close(process)
                return True
        os.close(process)
    return False


def _main(settings: str, *command: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    turn = None
    # Whatever is wrong here must not stop a compiler: without a turn it is as if there were no launcher.
    with suppress(OSError, ValueError, TypeError, AttributeError, AssertionError, StopIteration):
        turn = Turn(Settings(**json.loads(Path(settings).read_text(encoding="utf-8"))), list(command))
        turn.take()
    status = _run(list(command), turn)
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _main(*sys.argv[1:])
