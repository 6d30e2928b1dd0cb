"""Adopting a tree and undoing it, as a whole.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchwheel.adopt import adopt, undo
from tree.small_trees import write_tree
from unit.adopt.test_adopting import contents, root

__all__ = ["root"]


KILLED = """
import os, signal, sys
from pathlib import Path
from torchwheel.adopt import adopt
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
    for step in range(1, 9):
        done = subprocess.run([sys.executable, "-c", KILLED, root, str(step)], check=False)
        ended.append(done.returncode)
        adopt(root)
        undo(root)
        assert (step, contents(root), (root / "backend").exists()) == (step, before, False)
    assert ended == [-9] * 7 + [0]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lines=st.lists(
        st.sampled_from(
            [
                b"# a comment \xc3\xa9",
                b"",
                b"   \t",
                b"[tool.black]",
                b"[tool.isort]  # why ",
                b"[[tool.list]]",
                b"[build-system]",
                b"[ 'build-system' ]",
            ]
        ),
        unique=True,
    ),
    ends=st.lists(st.sampled_from([b"\n", b"\r\n"]), min_size=8, max_size=8),
    last=st.booleans(),
)
def test_undoing_restores_every_byte(lines: list[bytes], ends: list[bytes], last: bool) -> None:
    if b"[build-system]" in lines and b"[ 'build-system' ]" in lines:
        lines.remove(b"[build-system]")
    original = b"".join(line + end for line, end in zip(lines, ends, strict=False))
    original = original if last else original.rstrip(b"\r\n")
    with tempfile.TemporaryDirectory() as folder:
        root = write_tree(Path(folder) / "t")
        (root / "pyproject.toml").write_bytes(original)
        adopt(root)
        assert (root / "pyproject.toml").read_bytes() != original
        assert undo(root).restored == ("pyproject.toml",)
        assert (root / "pyproject.toml").read_bytes() == original
