"""A lock that keeps other processes out of a folder, and ends with the process that holds it.

The same calls as filelock's; importing that takes 40 ms, as much as everything else that a hook of torchwheel needs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SECONDS_BETWEEN_ATTEMPTS = 0.05

if sys.platform == "win32":
    import msvcrt

    def _acquire(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _release(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _acquire(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _release(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def file_lock(path: Path, when_taken: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of a file, which is made with its folder and stays.

    Args:
        path: the file.
        when_taken: called once if another holder has to be waited for.

    Raises:
        OSError: the file cannot be made, or its file system knows no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _wait_for(descriptor, when_taken)
        try:
            yield
        finally:
            _release(descriptor)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, when_taken: Callable[[], None] | None) -> None:
    waiting = False
    while not _is_acquired(descriptor):
        if when_taken is not None and not waiting:
            when_taken()
        waiting = True
        time.sleep(_SECONDS_BETWEEN_ATTEMPTS)


def _is_acquired(descriptor: int) -> bool:
    try:
        _acquire(descriptor)
    except (BlockingIOError, PermissionError):
        # What flock(2) and the C library of Windows answer while another process holds the lock.
        return False
    return True
