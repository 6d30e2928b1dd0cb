"""What the local label says beside the hardware, and that pip and uv order and match it.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backend.builds import clean_environment, run
from unit.plan.test_label import LABELS
from wheel_samples import WheelRecipe


@pytest.mark.parametrize("front_end", ["pip", "uv"])
def test_pip_and_uv_choose_by_the_label(front_end: str, tmp_path: Path) -> None:
    for label in LABELS:
        WheelRecipe(version=f"2.14.1+{label}", tag="py3-none-any").write(tmp_path)
    quiet = ("--dry-run", "--no-deps", "--no-index", "--find-links", tmp_path)
    pip = (sys.executable, "-m", "pip", "install", "--ignore-installed", *quiet)
    uv = ("uv", "pip", "install", "--python", sys.executable, *quiet)
    chosen = {}
    for wanted in ("torch==2.14.1", *(f"torch==2.14.1+{label}" for label in LABELS)):
        command = (*(pip if front_end == "pip" else uv), wanted)
        answer = run(*command, cwd=tmp_path, env=clean_environment(tmp_path))
        says = answer.stdout + answer.stderr
        assert answer.returncode == 0, says
        chosen[wanted] = next(label for label in sorted(LABELS, key=len, reverse=True) if f"+{label}" in says)
    assert chosen == {
        "torch==2.14.1": LABELS[-1],
        **{f"torch==2.14.1+{label}": label for label in LABELS},
    }
