"""End a hook together with its frontend, because stopping pip should stop hours of compiling.

A terminal's Ctrl-C reaches every process, but a signal to the frontend reaches only that. PR_SET_PDEATHSIG on Linux is
no solution: it signals the end of the thread that started this process, and uv ends that thread long before the build.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LOOKS = 0.5
_SYNCHRONIZE = 0x00100000
"""The right to wait for a process. Source: https://learn.microsoft.com/windows/win32/procthread/process-security-and-access-rights"""
_MILLISECONDS_BETWEEN_LOOKS = int(_SECONDS_BETWEEN_LOOKS * 1000)
_WAIT_OBJECT_0 = 0


@contextmanager
def ending_with_frontend() -> Iterator[None]:
    """During the block, end this process like after SIGTERM when its parent ends."""
    done = threading.Event()
    watch = _watch_handle if sys.platform == "win32" else _watch_number
    threading.Thread(target=watch, args=(os.getppid(), done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch_number(parent: int, done: threading.Event) -> None:
    """Watch the parent's id: an orphan gets another parent at once."""
    while not done.wait(_SECONDS_BETWEEN_LOOKS):
        if os.getppid() != parent:
            _say_ending()
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _watch_handle(parent: int, done: threading.Event) -> None:
    """Windows never changes the parent's id; an open handle keeps it from being reused."""
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(_SYNCHRONIZE, False, parent))
        while handle and not done.is_set():
            if kernel.WaitForSingleObject(handle, _MILLISECONDS_BETWEEN_LOOKS) == _WAIT_OBJECT_0:
                _say_ending()
                # Job objects end the child processes.
                os._exit(128 + signal.SIGTERM)
        kernel.CloseHandle(handle)


def _say_ending() -> None:
    # The frontend's end of the pipe may be closed.
    try:
        print(
            "torchwheel: the frontend has ended, and so does this build; the next run goes on from there",
            flush=True,
        )
    except (OSError, ValueError):
        return
