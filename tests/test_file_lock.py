"""One process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torchwheel._file_lock import file_lock

HOLDER = """
import sys, pathlib, torchwheel._file_lock as locks
with locks.file_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
    print("done", flush=True)
"""


def test_the_second_waits_and_says_so_once(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lock"
    said = []
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout and holder.stdin
        assert holder.stdout.readline() == "held\n"

        def end_of_the_other() -> None:
            said.append("waiting")
            holder.stdin.close()

        with file_lock(path, end_of_the_other):
            assert holder.stdout.readline() == "done\n"
    assert said == ["waiting"]


def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        holder.kill()
    with file_lock(path, lambda: pytest.fail("nobody holds it")):
        pass


def test_it_can_be_taken_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), file_lock(tmp_path / "lock"):
        raise ValueError("inside")
    with file_lock(tmp_path / "lock", lambda: pytest.fail("nobody holds it")):
        pass
