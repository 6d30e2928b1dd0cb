"""``torchwheel doctor`` as a user starts it, and the checks that run before every build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MINITORCH = Path(__file__).resolve().parent.parent / "examples" / "minitorch"

DOCTOR_BAR_SECONDS = 1.5
PREFLIGHT_BAR_SECONDS = 0.3


def test_doctor(benchmark: Any, bars: Any) -> None:
    """The whole examination of this machine."""
    command = [sys.executable, "-m", "torchwheel.cli.main", "doctor", str(MINITORCH), "--target", "rtx5070"]

    def doctor() -> None:
        assert subprocess.run(command, capture_output=True, check=False).stdout

    benchmark.pedantic(doctor, rounds=5, warmup_rounds=1)
    bars.absolute("torchwheel doctor minitorch", benchmark.stats.stats.data, DOCTOR_BAR_SECONDS)


def test_preflight(benchmark: Any, bars: Any) -> None:
    """What a build checks before it starts."""
    from torchwheel.plan.make import make_plan
    from torchwheel.preflight.report import run_preflight
    from torchwheel.survey import BuildRequest, survey

    environment = dict(os.environ)
    plan = make_plan(survey(BuildRequest(MINITORCH, {"target": "cpu"}, environment)))
    benchmark.pedantic(run_preflight, args=(plan, environment), rounds=5, warmup_rounds=1)
    bars.absolute("preflight of a build", benchmark.stats.stats.data, PREFLIGHT_BAR_SECONDS)
