"""``torchwheel status``, and the report's page: whole, escaped, and with the largest steps first."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cli.running import Run
from progress.test_record import WHOLE
from torchwheel.cli.status import component_of_step, render_page, seconds_of_steps
from torchwheel.progress.build_record import (
    RECORD,
    Build,
    BuildRecord,
    Running,
    TimedStep,
    write_build_record,
)
from torchwheel.system.locks import machine_id
from torchwheel.system.supervisor import start_time

BUILD = Build("torch-1.whl", "/a tree", "/cache/source", "/cache/build", "/cache/build.log", 2)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build that runs, two that ended, and one that was killed."""
    now = time.time()
    owner = (os.getpid(), start_time(os.getpid()), machine_id())
    running = BuildRecord(
        BUILD, "running", now - 125, now, 12, 24, 200.0, 5 << 30,
        (Running("a.o", "aten/a\x1b[31m.cu", now - 70, 3 << 30), Running("lib/b.so", None, now - 5, 1 << 20)),
        (TimedStep("c.o", "c.cpp", now - 100, now - 90), TimedStep("old.o", "old.cpp", now - 900, now - 800)),
        owner=owner,
    )  # fmt: skip
    done = replace(
        running,
        build=replace(BUILD, name="done.whl"),
        state="done",
        started=now - 7500,
        updated=now - 7260,
        running=(),
        steps=(
            TimedStep("c.o", "c.cpp", now - 7400, now - 7390),
            TimedStep("d.o", "d.cpp", now - 7300, now - 7290),
        ),
    )
    failed = replace(done, build=replace(BUILD, name="failed.whl"), state="failed", updated=now - 9000)
    killed = replace(
        running,
        build=replace(BUILD, name="killed.whl"),
        owner=(1, 1, "elsewhere"),
        started=now - 10020,
        updated=now - 9999,
    )
    for name, record in {"running": running, "done": done, "failed": failed, "killed": killed}.items():
        write_build_record(tmp_path / "builds" / name / RECORD, record)
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_what_runs_and_how_the_last_one_ended(torchwheel: Run, cache: Path) -> None:
    assert re.sub(r"\d+ s\b", "? s", torchwheel("status").out) == (
        "torch-1.whl  running for 2 min ? s\n"
        "progress  12 of 24 steps (50 %), about 3 min left, 5.4 GB of memory; aten/a\\x1b[31m.cu since 1 min ? s\n"
        "of        /a tree\n"
        "log       /cache/build.log\n"
        "  1 min ? s    3.2 GB  aten/a\\x1b[31m.cu\n"
        "         ? s    1.0 MB  lib/b.so\n"
        "\n"
        "done.whl  done 2 h 1 min ago, after 4 min ? s\n"
        "made  2 steps\n"
        "of    /a tree\n"
        "log   /cache/build.log\n"
    )


def test_as_a_document(torchwheel: Run, cache: Path) -> None:
    running, done = torchwheel("status", "--json").document("status")["builds"]
    assert 125 <= running.pop("seconds") < 190
    assert [70 <= step.pop("seconds") < 130 for step in running["running"]] == [True, False]
    assert (running.pop("started") < running.pop("updated"), done["state"]) == (True, "done")
    assert running == {
        "name": "torch-1.whl",
        "state": "running",
        "tree": "/a tree",
        "folder": "/cache/build",
        "log": "/cache/build.log",
        "record": str(cache / "builds/running" / RECORD),
        "jobs": 2,
        "finished": 12,
        "total": 24,
        "seconds_left": 200.0,
        "guess": False,
        "memory": 5 << 30,
        "running": [
            {"output": "a.o", "source": "aten/a\x1b[31m.cu", "memory": 3 << 30},
            {"output": "lib/b.so", "source": None, "memory": 1 << 20},
        ],
    }
    assert (done["running"], done["seconds_left"], done["memory"]) == ([], None, None)


def test_a_build_that_was_killed_says_so(torchwheel: Run, cache: Path) -> None:
    for name in ("running", "done", "failed"):
        (cache / "builds" / name / RECORD).unlink()
    assert torchwheel("status").out.startswith("killed.whl  ended 2 h 47 min ago, after 21 s\n")


@pytest.mark.parametrize(
    ("finished", "total", "said"), [(0, 0, "nothing is compiled yet"), (24, 24, "compiled; packaging")]
)
def test_before_and_after_compiling(
    finished: int, total: int, said: str, torchwheel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(tmp_path))
    assert torchwheel("status").out == "no builds yet\n"
    owner = (os.getpid(), start_time(os.getpid()), machine_id())
    record = BuildRecord(BUILD, "running", time.time(), time.time(), finished, total, owner=owner)
    write_build_record(tmp_path / "extensions" / "x" / RECORD, record)
    assert torchwheel("status").out.splitlines()[1] == f"progress  {said}"


EVIL = """<script>alert(1)</script>&"'${title}.cpp"""
WITH_STEPS = replace(
    WHOLE,
    build=replace(WHOLE.build, name="torch<b>.whl", tree="/a<tree>"),
    started=0.0,
    steps=(
        TimedStep("CMakeFiles/k.dir/gen.h", None, 0, 4),
        TimedStep("CMakeFiles/k.dir/a.o", EVIL, 4, 400, 2 << 30, hit=True),
        TimedStep("lib/liba.so", None, 1000, 1002, 70 << 20),
    ),
)


class _Elements(HTMLParser):
    """Sees that what is opened is closed, and keeps the text of each kind of element."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)


def test_the_page_is_whole_and_what_comes_from_files_is_text() -> None:
    made = render_page(WITH_STEPS)
    found = _Elements()
    found.feed(made)
    found.close()
    assert found.open == []
    assert "script" not in found.texts
    assert not re.search(r"https?:|url\(|@import", made)
    assert (found.texts["title"], found.texts["h1"]) == (["torch<b>.whl"], ["torch<b>.whl"])
    # The tree, the slowest steps, the components, and the steps that took the most memory.
    assert found.texts["code"] == [
        "/a<tree>", EVIL, "CMakeFiles/k.dir/gen.h", "lib/liba.so", "k (2 steps)", "a (1 step)", EVIL, "lib/liba.so",
    ]  # fmt: skip
    assert found.texts["td"] == [
        "6 min 36 s", "2.1 GB", "4.0 s", "2.0 s", "73.4 MB", "6 min 40 s", "2.1 GB", "2.0 s", "73.4 MB",
        "6 min 36 s", "2.1 GB", "2.0 s", "73.4 MB",
    ]  # fmt: skip
    assert "1 of 1 from the compiler cache" in made


def test_a_build_without_steps_has_a_page_too() -> None:
    assert "<p>No step is recorded.</p>" in render_page(replace(WITH_STEPS, steps=()))


def test_time_between_two_builds_does_not_count() -> None:
    steps = [
        TimedStep(f"{start}", None, start, end) for start, end in ((5, 9), (0, 10), (8, 12), (1000, 1003))
    ]
    assert seconds_of_steps(steps) == 15


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("aten/CMakeFiles/torch_cpu.dir/__/a.cpp.o", "torch_cpu"),
        ("lib/libtorch_cpu.so", "torch_cpu"),
        ("lib/_C.cpython-311-x86_64-linux-gnu.so", "_C"),
        ("bin/test_operators", "test_operators"),
        ("aten/src/ATen/Functions.h", "aten/src/ATen/"),
    ],
)
def test_the_component_is_in_the_name(output: str, part: str) -> None:
    assert component_of_step(output) == part
