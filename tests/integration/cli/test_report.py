"""``torchwheel report``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli.running import Run
from torchwheel.progress.build_record import RECORD, Build, Record, Step, write_record
from torchwheel.reporting.errors import Problem

BUILD = Build("torch-1.whl", "/a tree", "/cache/source", "/cache/build", "/cache/build.log", 2)
STEPS = (
    Step("CMakeFiles/k.dir/a.cu.o", "a.cu", 1000.0, 1004.5, 5 << 20, hit=False),
    Step("k.so", None, 1004.5, 1005.0),
)
DONE = Record(BUILD, "done", 1002.0, 1006.0, 2, 2, steps=STEPS, samples=((1001.0, 7),))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    write_record(tmp_path / "cache/builds/new" / RECORD, DONE)
    old = replace(DONE, build=replace(BUILD, name="old.whl"), updated=900.0)
    write_record(tmp_path / "cache/extensions/old-1" / RECORD, old)
    return tmp_path / "cache"


def test_the_page_of_the_latest_build(torchwheel: Run, cache: Path, tmp_path: Path) -> None:
    assert torchwheel("report").out == "torchwheel-report.html\ntorch-1.whl, done\n"
    assert "<h1>torch-1.whl</h1>" in (tmp_path / "torchwheel-report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "named",
    ["old.whl", "dist/old.whl", "old-1", "cache/extensions/old-1", f"cache/extensions/old-1/{RECORD}"],
)
def test_the_page_of_a_named_build(named: str, torchwheel: Run, cache: Path, tmp_path: Path) -> None:
    assert (
        torchwheel("report", named, "-o", "new folder/page.html").out
        == "new folder/page.html\nold.whl, done\n"
    )
    assert "<h1>old.whl</h1>" in (tmp_path / "new folder/page.html").read_text(encoding="utf-8")


def test_as_a_document(torchwheel: Run, cache: Path, tmp_path: Path) -> None:
    document = torchwheel("report", "--json").document("report")
    assert not (tmp_path / "torchwheel-report.html").exists()
    kernel = {
        "output": "CMakeFiles/k.dir/a.cu.o",
        "source": "a.cu",
        "seconds": 4.5,
        "peak_memory": 5 << 20,
        "cache_hit": False,
    }
    link = {"output": "k.so", "source": None, "seconds": 0.5, "peak_memory": None, "cache_hit": None}
    part = {"name": "k", "steps": 2, "seconds": 5.0, "peak": 5 << 20}
    assert document == {
        "schema": 1,
        "command": "report",
        "name": "torch-1.whl",
        "state": "done",
        "tree": "/a tree",
        "record": str(cache / "builds/new" / RECORD),
        "page": None,
        "jobs": 2,
        "seconds": 5.0,
        "seconds_of_steps": 5.0,
        "steps": [
            {**kernel, "made_now": False, "lane": 0, "start": 0.0},
            {**link, "made_now": True, "lane": 0, "start": 4.5},
        ],
        "critical_path": [],
        "components": [part],
        "kinds": [
            {**part, "name": "CUDA", "steps": 1, "seconds": 4.5},
            {**part, "name": "link", "steps": 1, "seconds": 0.5, "peak": None},
        ],
        "libraries": [],
        "memory": [{"time": 1001.0, "bytes": 7}],
    }
    assert torchwheel("report", "--json", "-o", "page.html").document("report")["page"] == "page.html"
    assert (tmp_path / "page.html").is_file()


@pytest.mark.usefixtures("wide")
def test_a_build_that_is_not_known(torchwheel: Run, cache: Path) -> None:
    result = torchwheel("report", "nonsense")
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "torchwheel: " + Problem.of("no-such-build/name", origin="nonsense", name="nonsense").render() + "\n"
    )
