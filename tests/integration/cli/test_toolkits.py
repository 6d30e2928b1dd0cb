"""``torchwheel toolkits``.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run
from toolkit.trees import small
from torchwheel.toolkit.cuda_releases import read_toolkits
from unit.cli.test_toolkits import combinations


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


def test_what_has_no_official_build_is_untried(torchwheel: Run) -> None:
    """PyTorch 2.4 does not compile with CUDA 13, and has no official build with 12.6."""
    old = combinations(torchwheel, "a100")["linux_x86_64", "2.4"]
    assert old["published"] == ["11.8", "12.1", "12.4"]
    assert "12.6" in old["untried"]
    assert "13.0" in old["ruled_out"]


def test_the_last_official_build_for_a_gpu_before_turing(torchwheel: Run) -> None:
    document = torchwheel("toolkits", "gtx1080ti", "--json").document("toolkits")
    last = {one["platform"]: (one["pytorch"], one["label"]) for one in document["last_official_builds"]}
    assert last == dict.fromkeys(("linux_x86_64", "win_amd64"), ("2.14.1", "cu126"))
    assert "PyTorch 2.14.1 (cu126, CUDA 12.6)" in torchwheel("toolkits", "gtx1080ti").out.replace("\n", " ")
    assert torchwheel("toolkits", "t4", "--json").document("toolkits")["last_official_builds"] == []
