"""CMake says that it has written its files although the disk was full and CMakeCache.txt is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.engine.configure_watch import ConfigureWatch
from torchwheel.errors import TorchwheelError
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey

MINITORCH = Path(__file__).resolve().parents[2] / "examples" / "minitorch"


def test_a_missing_cache_is_told(tmp_path: Path) -> None:
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin"}
    plan = make_plan(survey(BuildRequest(MINITORCH, {"target": "cpu"}, environment)))
    plan.folders.build.mkdir(parents=True)
    with pytest.raises(TorchwheelError) as caught:
        ConfigureWatch(plan)(f"-- Build files have been written to: {plan.folders.build}\n")
    assert str(caught.value) == (
        f"{plan.folders.build}: CMake has configured, but there is no CMakeCache.txt  [no-cmake-cache]\n"
        f"    fix: look into {plan.folders.log} for what removes it, and build again"
    )
