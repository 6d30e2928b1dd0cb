"""``torchwheel ... | head``: silence when the reader has seen enough."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchwheel.cli.output import quiet_when_output_closes


@pytest.mark.parametrize("words", [["targets", "cpu"], ["gpus", "--json"], ["gpus", "--help"], []])
def test_a_closed_output_is_no_error(words: list[str], here: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "torchwheel.cli.main", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("number", [errno.EPIPE, errno.EINVAL, errno.ENOENT])
def test_an_error_of_another_file_passes_through(number: int) -> None:
    script = (
        "from torchwheel.cli.output import quiet_when_output_closes\n"
        "with quiet_when_output_closes():\n"
        "    print('before')\n"
        f"    raise OSError({number}, 'of another pipe')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.split() == ["before"]
    assert done.stderr.splitlines()[-1].endswith(f"[Errno {number}] of another pipe")


def test_the_body_runs_once_and_its_result_stays(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet_when_output_closes():
        print("all")
    assert capsys.readouterr().out == "all\n"
