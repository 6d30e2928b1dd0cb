"""``torchwheel status``."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cli.running import Run
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
    ("finished", "total", "said"),
    [(0, 0, "nothing is compiled yet"), (24, 24, "compiled; packaging")],
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
