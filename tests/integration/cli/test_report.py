"""``torchwheel status --report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.running import Run
from torchwheel.progress.build_record import RECORD, Build, BuildRecord, TimedStep, write_build_record

BUILD = Build("torch-1.whl", "/a tree", "/cache/source", "/cache/build", "/cache/build.log", 2)
STEPS = (
    TimedStep("CMakeFiles/k.dir/a.cu.o", "a.cu", 1000.0, 1004.5, 5 << 20, hit=False),
    TimedStep("k.so", None, 1004.5, 1005.0),
)
DONE = BuildRecord(BUILD, "done", 1002.0, 1006.0, 2, 2, steps=STEPS)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    write_build_record(tmp_path / "cache/builds/new" / RECORD, DONE)
    old = replace(DONE, build=replace(BUILD, name="old.whl"), updated=900.0)
    write_build_record(tmp_path / "cache/extensions/old-1" / RECORD, old)
    return tmp_path / "cache"


def test_the_page_of_the_latest_build(torchwheel: Run, cache: Path, tmp_path: Path) -> None:
    assert torchwheel("status", "--report").out == "torchwheel-report.html\ntorch-1.whl, done\n"
    assert "<h1>torch-1.whl</h1>" in (tmp_path / "torchwheel-report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "named", ["dist/old.whl", "old-1", "cache/extensions/old-1", f"cache/extensions/old-1/{RECORD}"]
)
def test_the_page_of_a_named_build(named: str, torchwheel: Run, cache: Path, tmp_path: Path) -> None:
    assert (
        torchwheel("status", named, "--report", "new folder/page.html").out
        == "new folder/page.html\nold.whl, done\n"
    )
    assert "<h1>old.whl</h1>" in (tmp_path / "new folder/page.html").read_text(encoding="utf-8")


def test_a_named_build_alone(torchwheel: Run, cache: Path) -> None:
    document = torchwheel("status", "old.whl", "--json").document("status")
    assert [one["name"] for one in document["builds"]] == ["old.whl"]
    assert "old.whl" in torchwheel("status", "old-1").out


@pytest.mark.usefixtures("wide")
def test_a_build_that_is_not_known(torchwheel: Run, cache: Path) -> None:
    result = torchwheel("status", "nonsense", "--report")
    assert (result.status, result.out) == (2, "")
    assert ("nonsense" in result.err, "[no-such-build]" in result.err) == (True, True)
