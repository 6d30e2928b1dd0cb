"""``torchwheel diagnose``.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from cli.running import Run
from unit.cli.test_diagnose import KNOWN, shown


def test_a_pipe(program: Run) -> None:
    result = program("diagnose", "-", text=KNOWN)
    assert (result.status, result.out, result.err) == (1, shown(KNOWN), "")
