"""``torchwheel targets``.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

from cli.running import Run
from unit.cli.test_targets import MINE, overlays

__all__ = ["overlays"]


def test_one_of_the_users_own(program: Run, overlays: Path) -> None:
    (overlays / "desk.toml").write_text(MINE, encoding="utf-8")
    result = program("targets", "DESK", "--json").document("targets")
    assert result["targets"] == [
        {
            "name": "desk",
            "kind": "target",
            "title": "the workstation under my desk",
            "architectures": ["sm120"],
            "inherits": "rtx5070",
            "definitions": [{"layer": "user overlay", "origin": f"{overlays}/desk.toml"}],
        }
    ]
