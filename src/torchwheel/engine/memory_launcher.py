"""A compiler launcher for CMake: a compiler starts as soon as the memory that it will take is free.

Ninja can bound how many compilers run, not what they take together, and one file of PyTorch takes 0.2 GiB and another
8. So ninja gets as many jobs as there are cores, and each of them waits here. It is a script of its own that is copied
into the build folder: its path is part of every command, so it must not change with the environment torchwheel runs in.

    python -I -S memory_launcher.py SETTINGS COMMAND...

``SETTINGS`` is a JSON file: ``tokens`` (the folder of the locks, which builds of one machine share), ``budget`` (MiB
for all compilers together), ``known`` (MiB by the command's output), and ``kinds`` (a list of a regular expression that
is searched in the command, and MiB; the first that is found counts).
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

if sys.platform != "win32":
    import fcntl

TOKEN_MIB = 128
_SECONDS_BETWEEN_LOOKS = 0.05


def _wait(settings: dict[str, object], command: list[str]) -> None:
    known, kinds, budget = settings["known"], settings["kinds"], settings["budget"]
    assert isinstance(known, dict) and isinstance(kinds, list) and isinstance(budget, int)
    output = next((after for word, after in pairwise(command) if word == "-o"), "")
    text = " ".join(command)
    mib = int(known.get(output) or next(mib for pattern, mib in kinds if re.search(pattern, text)))
    total = max(1, budget // TOKEN_MIB)
    _take(Path(str(settings["tokens"])), min(-(-mib // TOKEN_MIB), total), total)


def _take(folder: Path, wanted: int, total: int) -> None:
    """Hold as many tokens until this process ends; those who wait stand in a queue, so that the largest gets its turn.

    A token is a lock on a file, so nothing is left behind by a process that is killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    queue = os.open(folder / "queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    fcntl.flock(queue, fcntl.LOCK_EX)
    free = list(range(total))
    while wanted:
        for number in free[:]:
            token = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(token, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(token)
                continue
            free.remove(number)
            wanted -= 1
            if not wanted:
                break
        else:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    os.close(queue)


def _main(settings: str, *command: str) -> None:
    # Whatever is wrong here must not stop a compiler: without a wait it is as if there were no launcher.
    with suppress(OSError, ValueError, LookupError, TypeError, AssertionError, StopIteration):
        _wait(json.loads(Path(settings).read_text(encoding="utf-8")), list(command))
    try:
        pid = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        os._exit(127)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        with suppress(OSError):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _main(*sys.argv[1:])
