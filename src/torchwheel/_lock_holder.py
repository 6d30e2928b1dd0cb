"""What runs under a lock is written beside it, so that whoever takes the lock over can end what was left running.

A lock goes with the process that holds it; what that process had started may go on writing for a while, or for ever
where the supervisor (:mod:`torchwheel._supervisor`) was killed in its turn to end. A record says which session that
is and when its leader was started, on which boot of which machine: a number alone may be another process's by now.
Without /proc nothing is recorded; the supervisor then does it alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from torchwheel._supervisor import end_session, start_time

_HELD: ContextVar[tuple[Path, ...]] = ContextVar("_HELD", default=())


@contextmanager
def holding(lock: Path) -> Iterator[None]:
    """What is started in the block is recorded at this lock; what its last holder left running is ended first."""
    _end_recorded(_record_of(lock))
    before = _HELD.set((*_HELD.get(), lock))
    try:
        yield
    finally:
        _HELD.reset(before)


@contextmanager
def recorded(leader: int) -> Iterator[None]:
    """Record a session at all locks that are held, as long as the block takes."""
    records = [_record_of(lock) for lock in _HELD.get()]
    started = start_time(leader)
    if started is not None:
        text = json.dumps({"leader": leader, "started": started, "machine": machine()})
        for record in records:
            # A full disk must not end a build that the supervisor watches over anyway.
            with suppress(OSError):
                record.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        for record in records:
            with suppress(OSError):
                record.unlink(missing_ok=True)


def machine() -> str:
    """This boot of this machine, and this container on it: where a process's number means the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return hashlib.sha256((boot + os.readlink("/proc/self/ns/pid")).encode()).hexdigest()[:8]
    except (OSError, ValueError):
        return ""


def _record_of(lock: Path) -> Path:
    return lock.with_name(lock.name + ".holder")


def _end_recorded(record: Path) -> None:
    try:
        said = json.loads(record.read_text(encoding="utf-8"))
        leader, started, where = int(said["leader"]), int(said["started"]), str(said["machine"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError):
        leader = started = 0
        where = ""
    if where and where == machine() and start_time(leader) == started:
        print(f"torchwheel: ending what a killed build left running (process {leader})", flush=True)
        end_session(leader)
    with suppress(OSError):
        record.unlink(missing_ok=True)
