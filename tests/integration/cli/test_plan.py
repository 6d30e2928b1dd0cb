"""``torchwheel plan`` as it is typed: what it says first, for which machine, and what a command line holds.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import json

from cli.running import Run
from places import MINITORCH


def test_that_building_is_needless_is_said_first_with_the_whole_command(torchwheel: Run) -> None:
    asked = ("plan", MINITORCH, "--target", "gtx1080", "--platform", "win_amd64")
    out = torchwheel(*asked).out.splitlines()
    assert "PyTorch 2.14.1 (cu126 build)" in out[0]
    command = "         pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126"
    assert out.index(command) < next(n for n, line in enumerate(out) if line.startswith("wheel "))
    minimal = torchwheel("plan", MINITORCH, "--target", "cpu", "--profile", "minimal").out
    assert "the profile minimal" in " ".join(minimal.partition("\nwheel ")[0].split())
    document = json.loads(torchwheel(*asked, "--json").out)
    assert document["findings"][0]["id"] == "need-not-build"
