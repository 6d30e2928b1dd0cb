"""``torchwheel plan`` as it is typed: what it says first, for which machine, and what a command line holds.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import json

from cli.running import Run
from places import MINITORCH


def test_that_building_is_needless_is_said_first_with_the_whole_command(torchwheel: Run) -> None:
    out = torchwheel("plan", MINITORCH, "--target", "gtx1080", "--platform", "win_amd64").out.splitlines()
    assert out[0].startswith("note: the official PyTorch 2.14.1 (cu126 build) already runs on ")
    fix = out.index("    fix: install it:")
    assert (
        out[fix + 1]
        == "         pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126"
    )
    assert out[fix + 2] == ""
    assert out[fix + 3].startswith("wheel ")
    cpu = torchwheel("plan", MINITORCH, "--target", "cpu").out
    assert " ".join(cpu.split()).startswith(
        "note: the official PyTorch 2.14.1 (cpu build) already runs on the CPU: "
    )
    assert "\n         pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cpu\n" in cpu
    minimal = torchwheel("plan", MINITORCH, "--target", "cpu", "--profile", "minimal").out
    assert "building it yourself gives the profile minimal; this tree's own source" in " ".join(
        minimal.split()
    )
    document = json.loads(
        torchwheel("plan", MINITORCH, "--target", "gtx1080", "--platform", "win_amd64", "--json").out
    )
    assert document["findings"][0]["id"] == "need-not-build"
