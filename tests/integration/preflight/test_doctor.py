"""``torchwheel doctor`` as it is typed, on this machine and on described ones.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from places import MINITORCH
from unit.preflight.test_doctor import compiler, document, plain_environment

__all__ = ["plain_environment"]


def test_this_machine() -> None:
    command = [sys.executable, "-m", "torchwheel", "doctor", str(MINITORCH), "--target", "cpu"]
    answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.startswith("torch-2.14.1a0+cpu-")
    assert "\x1b" not in answer.stdout
    *_, evidence, verdict = answer.stdout.splitlines()
    assert evidence == "PyTorch 2.14.1 is published for linux_x86_64 with no CUDA"
    # How much memory and disk is free depends on what else runs.
    assert re.fullmatch(r"no error was found: \d warnings?, 1 note, \d+ checks passed(, .*)?", verdict)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_slow_compiler_is_checked_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", compiler(tmp_path, "sleep 2"))
    found = document(capsys, str(MINITORCH), "--target", "cpu")
    assert "host-compiler-too-old" in found["passed"]
    assert "machine-did-not-answer" not in {row["id"] for row in found["findings"]}
