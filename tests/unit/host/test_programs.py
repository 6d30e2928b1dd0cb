"""Programs that answer, that fail, and that hang together with what they started."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from limits import within_limits
from torchwheel.host.programs import NoAnswer, ask_program, find_program, on_path

posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")


def test_an_answer() -> None:
    code = "import os, sys; print('ü', os.environ['X']); sys.exit(3)"
    answer = ask_program([sys.executable, "-X", "utf8", "-c", code], {**os.environ, "X": "1"})
    assert (answer.stdout.strip(), answer.returncode) == ("ü 1", 3)


def test_it_runs_where_it_is_told_and_names_of_files_survive(tmp_path: Path) -> None:
    code = "import os, sys; sys.stdout.buffer.write(os.fsencode(os.getcwd()) + b' \\xff')"
    answer = ask_program([sys.executable, "-c", code], folder=tmp_path, undecodable="surrogateescape")
    assert answer.stdout == f"{tmp_path} \udcff"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="cannot be started"):
        ask_program([str(tmp_path / "nothing")])


@posix
def test_windows_runs_no_program_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which may be a stranger's tree, with a git.exe in it."""
    for name in ("tree/git.exe", "bin/git.cmd", "bin/nvcc.txt", "later/git.exe"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "tree")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("PATHEXT", os.pathsep.join([".exe", ".cmd"]))
    path = os.pathsep.join(["", str(tmp_path / "bin"), str(tmp_path / "later")])
    first, later = str(tmp_path / "bin" / "git.cmd"), str(tmp_path / "later" / "git.exe")
    assert [find_program(name, path) for name in ("git", "git.exe", "nvcc")] == [first, later, None]
    assert on_path(["git", "status"], {"PATH": path}) == [first, "status"]
    assert on_path([r"C:\git", "status"], {"PATH": path}) == [r"C:\git", "status"]
    with pytest.raises(FileNotFoundError, match="it is not on PATH"):
        on_path(["nvcc"], {"PATH": path})
    with pytest.raises(NoAnswer, match="nvcc cannot be started: it is not on PATH"):
        ask_program(["nvcc"], {"PATH": path})


@posix
def test_what_hangs_ends_with_what_it_started(tmp_path: Path) -> None:
    """A wrapper's child holds the pipes open, so that to end the wrapper alone would not be enough."""
    wrapper, child = tmp_path / "g++", tmp_path / "child"
    wrapper.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > '{child}'\nwait\n", encoding="utf-8")
    wrapper.chmod(0o755)
    with pytest.raises(NoAnswer, match=r"took longer than 0\.5 seconds"):
        ask_program([str(wrapper)], seconds=0.5)
    pid = int(child.read_text(encoding="utf-8"))
    deadline = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_running(pid)


@posix
@pytest.mark.parametrize("stream", ["", ">&2"])
def test_what_prints_for_ever_is_ended(stream: str) -> None:
    """Long before its time is up, and before its answer fills the memory."""

    def asked() -> None:
        with pytest.raises(NoAnswer) as caught:
            ask_program(["sh", "-c", f"yes yes yes {stream}"], seconds=60)
        assert str(caught.value) == "sh printed more than 16.0 MB"

    within_limits(asked)


@posix
def test_a_long_answer() -> None:
    answer = ask_program(["sh", "-c", "head -c 5000000 /dev/zero; sleep 0.2; head -c 5000000 /dev/zero"])
    assert answer.stdout == "\0" * 10_000_000


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Nobody may have waited for it yet.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
