"""What processes took, measured on real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchwheel.extension.profile.model import Usage
from torchwheel.extension.profile.sandbox import run_measured

_MIB = 1 << 20
_CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
_WORK = "import time\nend = time.process_time() + 0.3\nx = bytearray(200 << 20)\nwhile time.process_time() < end: pass"


def run(tmp_path: Path, *command: str):  # type: ignore[no-untyped-def]
    return run_measured(command, tmp_path, dict(os.environ), tmp_path)


def test_output_status_and_folder(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getcwd()); print('é', file=sys.stderr); sys.exit(3)"
    finished = run(tmp_path, sys.executable, "-X", "utf8", "-c", program)
    assert finished.status == 3
    assert sorted(finished.output.splitlines()) == sorted([str(tmp_path), "é"])


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows does not tell what a process and its children took"
)
def test_what_children_took_counts(tmp_path: Path) -> None:
    usage = run(tmp_path, sys.executable, "-c", _CHILD, _WORK).usage
    assert usage.peak_bytes is not None
    assert usage.processor_seconds is not None
    assert 200 * _MIB < usage.peak_bytes < 400 * _MIB
    assert 0.3 <= usage.processor_seconds < 10
    assert usage.seconds >= 0.3
    assert usage.cost == usage.processor_seconds


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell what a process took")
def test_what_the_starting_process_takes_does_not_count(tmp_path: Path) -> None:
    """A child of fork and exec begins with its parent's peak of memory."""
    program = (
        "import os, pathlib, sys; heavy = bytearray(300 << 20); "
        "from torchwheel.extension.profile.sandbox import run_measured; "
        "done = run_measured([sys.executable, '-S', '-c', ''], pathlib.Path(sys.argv[1]), dict(os.environ), "
        "pathlib.Path(sys.argv[1])); print(done.usage.peak_bytes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=True, timeout=60
    )
    assert 1 * _MIB < int(done.stdout) < 100 * _MIB


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals")
def test_a_signal_is_a_negative_status(tmp_path: Path) -> None:
    assert run(tmp_path, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)").status == -9


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    finished = run(tmp_path, str(tmp_path / "nothing"))
    assert finished.status == 127
    assert "nothing" in finished.output


def test_the_cost_of_a_process() -> None:
    assert Usage(2.0).cost == 2.0
    assert Usage(2.0, 3.0).shortest == 2.0
    assert Usage(3.0, 2.0).shortest == 2.0
