"""``torchwheel toolkits``.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run
from toolkit.trees import small
from torchwheel.toolkit.cuda_releases import read_toolkits


def test_the_table(program: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(small(here / "cuda", number=11080)))
    monkeypatch.setenv("COLUMNS", "240")
    result = program("toolkits")
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "On this machine"
    assert lines[1].split() == ["VERSION", "FOUND", "BY", "FOLDER", "COMPILES", "FOR"]
    compiles = "3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0"
    assert " ".join(lines[2].split()) == f"11.8 CUDA_HOME {here / 'cuda'} {compiles}"
    offered = lines[lines.index("On PyPI") + 1 :]
    assert offered[0] == "VERSION  NVCC  COMPILES FOR"
    assert f"11.8     no    {compiles}" in offered
    listed = [line.split()[:2] for line in offered[1 : offered.index("")]]
    assert listed == [
        [one.version, "yes" if one.pypi_nvcc else "no"]
        for one in reversed(read_toolkits().releases)
        if one.pypi
    ]
