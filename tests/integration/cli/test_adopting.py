"""Adopting a tree and undoing it, as a whole.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from torchwheel.cli.adopt import adopt, undo
from unit.cli.test_adopting import contents, root

__all__ = ["root"]


KILLED = """
import os, signal, sys
from pathlib import Path
from torchwheel.cli.adopt import adopt
def killed_at(step, call):
    def counted(*arguments, **options):
        steps.append(call)
        if len(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return counted
steps = []
for name in ("mkdir", "write_bytes", "replace"):
    setattr(Path, name, killed_at(int(sys.argv[2]), getattr(Path, name)))
adopt(Path(sys.argv[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_killed_anywhere_it_is_adopted_and_undone_by_the_next(root: Path) -> None:
    before = contents(root)
    ended = []
    for step in range(1, 8):
        done = subprocess.run([sys.executable, "-c", KILLED, root, str(step)], check=False)
        ended.append(done.returncode)
        adopt(root)
        undo(root)
        assert (step, contents(root), (root / "backend").exists()) == (step, before, False)
    assert ended == [-9] * 6 + [0]
