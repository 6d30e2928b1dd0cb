"""Between torchwheel and every long command: it ends with torchwheel, and everything that it started with it.

Run as a script by the interpreter alone, before anything of torchwheel can be imported, so only the standard library
is used. It leads a session. Its standard input is a pipe that torchwheel alone can write to: the pipe ends with
torchwheel, whatever ended that. A death signal (prctl's PR_SET_PDEATHSIG) would tell only of the thread that started
the command, not on macOS, and not those whom the command starts in their turn. Ninja runs every compiler in a process
group of its own, so it is the session that is ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

if sys.platform != "win32":
    import resource

GRACE_SECONDS = 10.0
"""How long processes may take to remove what they have half written, as ninja does."""

SESSION = "_TORCHWHEEL_SESSION"
"""The variable by which what a supervisor started is known when the supervisor itself is dead: its start time."""

_SECONDS_TO_DIE = 30.0
_SECONDS_BETWEEN_LOOKS = 0.02


def start_time(pid: int) -> int | None:
    """When a process was started, in the kernel's ticks; None if there is none or the system has no /proc."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def session_members(leader: int) -> list[int]:
    """The processes of a session, but for those that have ended; none where the system has no /proc."""
    try:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []
    return [
        pid
        for pid in pids
        if (fields := stat_fields(pid)) and fields[3] == str(leader) and fields[0] not in "ZX"
    ]


def is_session(leader: int, started: int) -> bool:
    """Whether a session is that of a supervisor of this start time, which may have been killed.

    A dead leader's number is nobody else's as long as its session has members, but they may be a later session's.
    """
    if (now := start_time(leader)) is not None:
        return now == started
    return any(f"{SESSION}={started}" in _environment_of(pid) for pid in session_members(leader))


def _environment_of(pid: int) -> list[str]:
    try:
        return Path("/proc", str(pid), "environ").read_text("utf-8", "replace").split("\0")
    except OSError:
        return []


def end_session(leader: int) -> None:
    """End all processes of a session but this one: asked first, forced after :data:`GRACE_SECONDS`.

    They are asked as a terminal does: Python ends by SIGTERM at once, and PyTorch's setup.py, which changes LICENSE
    while it packs, would not put it back.
    """
    if sys.platform == "win32":
        return
    asked = GRACE_SECONDS / 2
    for number, seconds in (
        (signal.SIGINT, asked),
        (signal.SIGTERM, asked),
        (signal.SIGKILL, _SECONDS_TO_DIE),
    ):
        for pid in _other_members(leader):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while _other_members(leader):
            if time.monotonic() > deadline:
                break
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        else:
            return


def _other_members(leader: int) -> list[int]:
    return [pid for pid in session_members(leader) if pid != os.getpid()]


def stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third, the state; the second is a name that may hold anything."""
    try:
        return Path("/proc", str(pid), "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None


def _main(command: list[str]) -> None:
    if sys.platform == "win32":
        raise SystemExit("torchwheel: Windows has job objects for this")
    os.set_inheritable(0, False)
    try:
        pid = os.posix_spawnp(
            command[0],
            command,
            {**os.environ, SESSION: str(start_time(os.getpid()))},
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            # Python ignores two, a shell in the background the third; ignored signals stay so in what is started.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT],
        )
    except OSError as error:
        print(f"cannot be started: {error}", flush=True)
        raise SystemExit(127) from None
    ending = threading.Event()

    def end(_number: int = 0, _frame: FrameType | None = None) -> None:
        ending.set()
        if Path("/proc/self/stat").exists():
            end_session(os.getpid())
        else:
            # macOS: without a list of the session's processes, only the group can be reached.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            time.sleep(1)
            os.killpg(0, signal.SIGKILL)
        os._exit(128 + signal.SIGTERM)

    def wait_for_torchwheel() -> None:
        with suppress(OSError):
            os.read(0, 1)
        end()

    signal.signal(signal.SIGTERM, end)
    watcher = threading.Thread(target=wait_for_torchwheel, daemon=True)
    watcher.start()
    _, status = os.waitpid(pid, 0)
    if ending.is_set():
        watcher.join()
    if status:
        # What has failed or was killed is followed by another try, beside which nothing of it may go on: of a venv
        # that is killed, ensurepip would fill the environment that the next build removes.
        end_session(os.getpid())
    sys.stdout.flush()
    if os.WIFSIGNALED(status):
        _die_of(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _die_of(number: int) -> None:
    """End by the signal that ended the command, so that torchwheel sees what it would see without this process."""
    if sys.platform == "win32":
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    _main(sys.argv[1:])
