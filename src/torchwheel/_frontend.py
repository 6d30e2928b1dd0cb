"""A hook ends with the frontend that called it: who stops pip does not want hours of compiling to go on behind it.

A terminal's Ctrl-C reaches every process there; a signal or a kill that is meant for the frontend reaches it alone.
PR_SET_PDEATHSIG would not do on Linux: it tells of the end of the thread that started this process, and uv is done with
that thread long before the build.
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
    """As long as the block takes, this process ends when its parent does, as after SIGTERM."""
    done = threading.Event()
    watch = _watch_handle if sys.platform == "win32" else _watch_number
    threading.Thread(target=watch, args=(os.getppid(), done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch_number(parent: int, done: threading.Event) -> None:
    """An orphan gets another parent at once."""
    while not done.wait(_SECONDS_BETWEEN_LOOKS):
        if os.getppid() != parent:
            _say_ending()
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _watch_handle(parent: int, done: threading.Event) -> None:
    """Windows never changes the number; an open handle keeps it from being given to another process."""
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(_SYNCHRONIZE, False, parent))
        while handle and not done.is_set():
            if kernel.WaitForSingleObject(handle, _MILLISECONDS_BETWEEN_LOOKS) == _WAIT_OBJECT_0:
                _say_ending()
                # Job objects end what was started.
                os._exit(128 + signal.SIGTERM)
        kernel.CloseHandle(handle)


def _say_ending() -> None:
    # The frontend's end of the pipe may be closed with it.
    try:
        print(
            "torchwheel: the frontend has ended, and so does this build; the next run goes on from there",
            flush=True,
        )
    except (OSError, ValueError):
        return
