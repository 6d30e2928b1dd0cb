"""A compiler launcher for CMake: a compiler starts as soon as enough memory is free.

Ninja can limit the number of compilers but not their total memory, and one file of PyTorch needs 0.2 GiB, another 8. So
ninja gets as many jobs as there are cores, and each compiler waits here. A file's memory is known only after its first
compile; until then its kind's usual memory is assumed.

It is a standalone script copied into the build folder: its path is part of every command, so it must not depend on
torchwheel's environment.

    python -I -S memory_launcher.py SETTINGS COMMAND...

``SETTINGS`` is a JSON file with the fields of :class:`LauncherSettings`.
"""

from __future__ import annotations

import json
import os
import re
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


def wait_for_memory(settings: LauncherSettings, command: list[str]) -> None:
    """Take a command's share of the memory once it is free, or no other command runs; held until this process ends.

    It is a number of locks, so that a killed command leaves nothing behind.
    """
    output, text = next((after for word, after in pairwise(command) if word == "-o"), ""), " ".join(command)
    # The last pattern is empty, so every command has a kind.
    mib = settings.known.get(output) or next(m for pattern, m in settings.kinds if re.search(pattern, text))
    total = max(1, settings.budget // TOKEN_MIB)
    wanted, folder = min(-(-mib // TOKEN_MIB), total), Path(settings.tokens)
    folder.mkdir(parents=True, exist_ok=True)
    # Waiting commands queue, so that the largest gets its turn.
    queue = _open_token(folder, "queue")
    fcntl.flock(queue, fcntl.LOCK_EX)
    while not _has_taken(folder, total, wanted, free_mib(settings.groups) - settings.keep):
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os.close(queue)


def _has_taken(folder: Path, total: int, wanted: int, free: int) -> bool:
    """Take the wanted tokens if there is so much memory, or all tokens are free; else none."""
    held, others = list[int](), 0
    for number in range(total):
        token = _open_token(folder, str(number))
        try:
            fcntl.flock(token, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            others += 1
        else:
            if len(held) < wanted:
                held.append(token)
                continue
        os.close(token)
    if len(held) == wanted and (free >= wanted * TOKEN_MIB or not others):
        return True
    for token in held:
        os.close(token)
    return False


def _open_token(folder: Path, name: str) -> int:
    return os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


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


def _main(settings: str, *command: str) -> None:
    # On Ctrl-C, Python would print a traceback for every running compiler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # An error here must not stop a compiler; without its share the launcher has no effect.
    with suppress(OSError, ValueError, TypeError, AttributeError, AssertionError, LookupError, StopIteration):
        wait_for_memory(
            LauncherSettings(**json.loads(Path(settings).read_text(encoding="utf-8"))), list(command)
        )
    try:
        status = os.waitpid(os.posix_spawnp(command[0], command, os.environ), 0)[1]
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)
    # End in the same way: a compiler that was killed may be a sign of too little memory.
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _main(*sys.argv[1:])
