"""Locks that keep builds of one folder apart."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.locks import file_lock, folder_lock, free_lock
from torchwheel.system.supervisor import end_session


@pytest.mark.skipif(os.name == "nt", reason="flock is POSIX")
@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(TorchwheelError) as caught, file_lock(tmp_path / "a.lock"):
        pass
    assert caught.value.problems == (
        Problem.of("no-file-locks", origin=tmp_path / "a.lock", reason=os.strerror(number)),
    )


def test_a_folder_that_has_no_place_for_a_lock_is_held_by_the_caches_alone(tmp_path: Path) -> None:
    (tmp_path / "build").touch()
    lock = tmp_path / "cache" / "a.lock"
    with folder_lock(tmp_path, lock, lambda: None), free_lock(lock) as free:
        assert not free


def test_what_a_killed_build_left_stays_recorded_until_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(leader: int) -> None:
        raise OSError(errno.EPIPE, f"{leader} is not ended")

    record = tmp_path / "a.lock.holder"
    record.write_text(json.dumps({"leader": 7, "started": 1, "machine": "here"}))
    monkeypatch.setattr("torchwheel.system.locks.machine_id", lambda: "here")
    monkeypatch.setattr("torchwheel.system.locks.is_session", lambda *_: True)
    monkeypatch.setattr("torchwheel.system.locks.end_session", fail)
    with pytest.raises(OSError, match="7 is not ended"), file_lock(tmp_path / "a.lock"):
        pass
    assert record.exists()


def test_a_lock_that_another_has_is_waited_for(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from torchwheel.system.locks import file_lock\n"
        "with file_lock(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    input()\n"
        "    pathlib.Path(sys.argv[1] + '.done').touch()\n"
    )
    path = tmp_path / "a.lock"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline().strip() == b"held"
        stdin = other.stdin

        def say() -> None:
            stdin.write(b"\n")
            stdin.flush()

        with file_lock(path, say):
            assert Path(f"{path}.done").exists()


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path) -> None:
    path, waits, holds, done = tmp_path / "lock", Event(), Event(), Event()

    def wait() -> None:
        with file_lock(path, waits.set):
            holds.set()
            done.wait(20)

    waiting = Thread(target=wait)
    with file_lock(path):
        waiting.start()
        assert waits.wait(20)
        path.unlink()
    try:
        assert holds.wait(20)
        with free_lock(path) as free:
            assert not free
    finally:
        done.set()
        waiting.join()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="sessions are found in /proc")
def test_a_session_is_ended_as_a_terminal_would(tmp_path: Path) -> None:
    """PyTorch's setup.py restores LICENSE after an interrupt, and not after SIGTERM."""
    script = (
        "import pathlib, signal, sys, time\n"
        # A shell's job in the background ignores it, and so would what it starts.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try:\n    print('ready', flush=True)\n    time.sleep(600)\n"
        "finally:\n    pathlib.Path(sys.argv[1]).touch()\n"
    )
    restored = tmp_path / "restored"
    command = [sys.executable, "-c", script, str(restored)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        end_session(process.pid)
    assert restored.exists()
