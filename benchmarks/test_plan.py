"""``torchwheel plan`` from the start of its process to the printed plan, with a warm disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MINITORCH = Path(__file__).resolve().parent.parent / "examples" / "minitorch"
REAL_TREE = os.environ.get("BENCHMARK_TREE")
"""A real PyTorch tree to plan for, too."""

BAR_SECONDS = 0.5
ROUNDS = 20


@pytest.mark.parametrize("options", [(), ("--explain",), ("--json",)], ids=" ".join)
@pytest.mark.parametrize("tree", [str(MINITORCH), *([REAL_TREE] if REAL_TREE else [])])
def test_plan(benchmark: Any, bars: Any, tree: str, options: tuple[str, ...]) -> None:
    """The command of the environment that runs this, as a user starts it."""
    name = "torchwheel.exe" if sys.platform == "win32" else "torchwheel"
    command = [str(Path(sys.executable).with_name(name)), "plan", tree, "--target", "rtx5070", *options]

    def plan() -> None:
        # Status 1 is a plan with findings that would stop the build, such as no CUDA here; it is printed all the same.
        result = subprocess.run(command, capture_output=True, check=False)
        assert result.stdout

    benchmark.pedantic(plan, rounds=ROUNDS, warmup_rounds=2)
    bars.absolute(
        " ".join(["torchwheel plan", Path(tree).name, *options]), benchmark.stats.stats.data, BAR_SECONDS
    )
