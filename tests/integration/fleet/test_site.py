"""Sites of wheels: what enters, what is written again, and what installers read.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fleet.sites import fleet_of
from unit.fleet.test_site import Links, update


def test_two_runs_at_a_time_add_their_wheels(tmp_path: Path) -> None:
    site, wheels = tmp_path / "site", fleet_of(tmp_path / "dist")
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "torchwheel.cli.main", "index", wheel, "-o", site, "--variants"]
        )
        for wheel in wheels
    ]
    assert [run.wait(120) for run in runs] == [0] * len(wheels)
    assert len(update(site).wheels) == len(Links(site / "simple/torch/index.html").links) == 4
