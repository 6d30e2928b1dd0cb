"""Locks for folders of builds, and the record of the session that runs under each."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.system.supervisor import end_session, is_session, start_time

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_SECONDS_BETWEEN_TRIES = 0.05
_HELD: ContextVar[tuple[Path, ...]] = ContextVar("_HELD", default=())


@contextmanager
def file_lock(path: Path, when_taken: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock of a file, which is kept; first end what a killed holder left running.

    If another has it, ``when_taken`` is called once before waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not with filelock: it treats EACCES, which file systems without locks may return, as another holder, and waits;
    # without flock it uses a lock that a killed process leaves behind (filelock 4.2, _unix.py).
    while True:
        with _lock_file(path) as descriptor:
            if not _try_lock(descriptor, path):
                if when_taken is not None:
                    when_taken()
                while not _try_lock(descriptor, path):
                    time.sleep(_SECONDS_BETWEEN_TRIES)
            # Removing the cache removes locks too, and the next holder creates another file.
            if not _is_same(descriptor, path):
                continue
            # Sessions started in the block are recorded at this lock.
            _end_recorded(_record_of(path))
            before = _HELD.set((*_HELD.get(), path))
            try:
                yield
            finally:
                _HELD.reset(before)
            return


@contextmanager
def folder_lock(folder: Path, lock: Path, when_taken: Callable[[], None]) -> Iterator[None]:
    """Lock a user's own folder, in which builds write: in torchwheel's cache, and in itself for other caches."""
    with file_lock(lock, when_taken), ExitStack() as held:
        with suppress(TorchwheelError, OSError):
            held.enter_context(file_lock(folder / "build" / "torchwheel.lock", when_taken))
        yield


def lock_beside(folder: Path) -> Path:
    """The lock file of a shared folder that may be removed as a whole."""
    return folder.with_name(f"{folder.name}.lock")


@contextmanager
def free_lock(path: Path) -> Iterator[bool]:
    """Hold the lock of an existing file if it is free; yields whether it was."""
    with _lock_file(path) as descriptor:
        yield _try_lock(descriptor, path)


@contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        yield descriptor
    finally:
        # On Windows a lock may outlast its descriptor for a moment.
        with suppress(OSError):
            if sys.platform == "win32":
                os.lseek(descriptor, 0, os.SEEK_SET)
                msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
            else:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return False


def _try_lock(descriptor: int, path: Path) -> bool:
    """Try to take the lock; only EWOULDBLOCK, on Windows EACCES, means another holder."""
    taken = PermissionError if sys.platform == "win32" else BlockingIOError
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except taken:
        return False
    except OSError as error:
        raise refusal("no-file-locks", origin=path, reason=error.strerror or error) from error
    return True


# The session that runs under a lock is recorded beside it, so that the next holder can end leftovers. A lock ends with
# its process, but child processes may continue to write for a while, or for ever if the supervisor (supervisor.py) was
# killed. The record has the session, its leader's start, the boot and the machine, because process ids are reused.
# Without /proc nothing is recorded, and only the supervisor ends processes.


@contextmanager
def record_session(leader: int) -> Iterator[None]:
    """Record a session at all held locks during the block."""
    records = [_record_of(lock) for lock in _HELD.get()]
    if (started := start_time(leader)) is not None:
        text = json.dumps({"leader": leader, "started": started, "machine": machine_id()})
        for record in records:
            # A full disk must not end a build, which the supervisor watches anyway.
            with suppress(OSError):
                record.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        for record in records:
            with suppress(OSError):
                record.unlink(missing_ok=True)


def machine_id() -> str:
    """Identify this machine's boot and container, in which process ids are unique."""
    with suppress(OSError, ValueError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return hashlib.sha256((boot + os.readlink("/proc/self/ns/pid")).encode()).hexdigest()[:8]
    return ""


def _record_of(lock: Path) -> Path:
    return lock.with_name(lock.name + ".holder")


def _end_recorded(record: Path) -> None:
    left = None
    # A record that cannot be read names no session.
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        said = json.loads(record.read_text(encoding="utf-8"))
        leader, started, where = int(said["leader"]), int(said["started"]), str(said["machine"])
        left = leader if where and where == machine_id() and is_session(leader, started) else None
    if left is not None:
        print(f"torchwheel: ending what a killed build left running (process {left})", flush=True)
        end_session(left)
    with suppress(OSError):
        record.unlink(missing_ok=True)
