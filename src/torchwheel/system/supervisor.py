"""End processes together: a command with torchwheel, and torchwheel with the frontend that called its hook.

As a script this supervises a long command: it leads a session, and ends all of it when torchwheel ends. It runs without
torchwheel's package, so only the standard library is used. Its standard input is a pipe to which only torchwheel can
write: the pipe closes with torchwheel, whatever ended it. A death signal (prctl's PR_SET_PDEATHSIG) would follow the
thread that started the command, does not exist on macOS, and does not reach further child processes. Ninja runs every
compiler in a separate process group, so the whole session is ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

if sys.platform != "win32":
    import resource

GRACE_SECONDS = 10.0
"""Seconds for processes to remove incomplete outputs, as ninja does."""

SESSION = "_TORCHWHEEL_SESSION"
"""The variable with the supervisor's start time, which identifies its processes after it was killed."""

_SECONDS_TO_DIE = 30.0
_SECONDS_BETWEEN_LOOKS = 0.02
_SECONDS_BETWEEN_LOOKS_AT_FRONTEND = 0.5
_SYNCHRONIZE = 0x00100000
"""The right to wait for a process. Source: https://learn.microsoft.com/windows/win32/procthread/process-security-and-access-rights"""
_WAIT_OBJECT_0 = 0


def start_time(pid: int) -> int | None:
    """The start time of a process, in the kernel's ticks; None if there is none or the system has no /proc."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields and fields[0] not in "ZX" else None


def session_members(leader: int) -> list[int]:
    """The running processes of a session; none on systems without /proc."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[1-9]*")]
    return [
        pid
        for pid in pids
        if (fields := stat_fields(pid)) and fields[3] == str(leader) and fields[0] not in "ZX"
    ]


def is_session(leader: int, started: int) -> bool:
    """Whether a session belongs to a supervisor with this start time, which may have been killed.

    A dead leader's id is not reused while its session has members, but these may be from a later session.
    """
    if (now := start_time(leader)) is not None:
        return now == started
    mark = f"{SESSION}={started}"
    return any(mark in _read_proc(pid, "environ").split("\0") for pid in session_members(leader))


def end_session(leader: int) -> None:
    """End all other processes of a session: with a request first, by force after :data:`GRACE_SECONDS`.

    The request is a terminal's signal: SIGTERM would end Python at once, and PyTorch's setup.py, which changes LICENSE
    during packaging, would not restore it.
    """
    if sys.platform == "win32":
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        for pid in _other_members(leader):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        seconds = _SECONDS_TO_DIE if number == signal.SIGKILL else GRACE_SECONDS / 2
        deadline = time.monotonic() + seconds
        while time.monotonic() <= deadline:
            if not _other_members(leader):
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)


def _other_members(leader: int) -> list[int]:
    return [pid for pid in session_members(leader) if pid != os.getpid()]


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state; empty without the file."""
    # The second is a name that may contain anything.
    return _read_proc(pid, "stat").rpartition(")")[2].split()


def _read_proc(pid: int, name: str) -> str:
    with suppress(OSError):
        return Path("/proc", str(pid), name).read_text("utf-8", "replace")
    return ""


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
            # Python ignores two, a background shell the third, and child processes inherit ignored signals.
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
            # This process is in that group, too.
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
    # The command ended because it was asked to; end() also ends the rest of the session, and this process.
    if ending.is_set():
        watcher.join()
    if status:
        # No process may run on beside the next attempt: after a killed venv, ensurepip would fill the environment that
        # the next build removes.
        end_session(os.getpid())
    sys.stdout.flush()
    if os.WIFSIGNALED(status):
        _die_of(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _die_of(number: int) -> None:
    """End by the signal that ended the command, so that torchwheel sees the same status as without this process."""
    if sys.platform == "win32":
        return
    # A core file of this process would show nothing of the command.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


@contextmanager
def ending_with_frontend() -> Iterator[None]:
    """During the block, end this process like after SIGTERM when its parent ends: it is to stop hours of compiling.

    A terminal's Ctrl-C reaches every process, but a signal to the frontend reaches only that. PR_SET_PDEATHSIG signals
    the end of the thread that started this process, and uv ends that thread long before the build.
    """
    done = threading.Event()
    watch = _watch_handle if sys.platform == "win32" else _watch_number
    threading.Thread(target=watch, args=(os.getppid(), done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch_number(parent: int, done: threading.Event) -> None:
    """Watch the parent's id: an orphan gets another parent at once."""
    while not done.wait(_SECONDS_BETWEEN_LOOKS_AT_FRONTEND):
        if os.getppid() != parent:
            _say_ending()
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _watch_handle(parent: int, done: threading.Event) -> None:
    """Windows never changes the parent's id; an open handle keeps it from being reused."""
    if sys.platform == "win32":
        import ctypes  # of Windows alone

        kernel = ctypes.WinDLL("kernel32")
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(_SYNCHRONIZE, False, parent))
        milliseconds = round(_SECONDS_BETWEEN_LOOKS_AT_FRONTEND * 1000)
        while handle and not done.is_set():
            if kernel.WaitForSingleObject(handle, milliseconds) == _WAIT_OBJECT_0:
                _say_ending()
                # Job objects end the child processes.
                os._exit(128 + signal.SIGTERM)
        kernel.CloseHandle(handle)


def _say_ending() -> None:
    # The frontend's end of the pipe may be closed.
    with suppress(OSError, ValueError):
        print(
            "torchwheel: the frontend has ended, and so does this build; the next run goes on from there",
            flush=True,
        )


if __name__ == "__main__":
    _main(sys.argv[1:])
