"""Writing files so that nobody meets half of one, and locking folders against other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


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
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        if when_taken is not None:
            when_taken()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
