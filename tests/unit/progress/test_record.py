"""Records of builds: written whole, read with doubt, and put together for the next build."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from torchwheel.progress.build_record import (
    RECORD,
    Build,
    BuildRecord,
    Running,
    TimedStep,
    measured_steps,
    read_build_record,
    read_build_records,
    write_build_record,
)
from torchwheel.system.locks import machine_id
from torchwheel.system.supervisor import start_time

BUILD = Build("torch.whl", "/tree", "/cache/source", "/cache/build", "/cache/build.log", 2)
WHOLE = BuildRecord(
    BUILD,
    "running",
    1000.0,
    1030.0,
    7,
    24,
    99.5,
    123456,
    (Running("b.o", "b.cpp", 1010.0, 99),),
    (
        TimedStep("old.o", "old.cpp", 900.0, 903.5, 5 << 20, cost=3.5),
        TimedStep("a.so", None, 1001.0, 1002.0, hit=False),
    ),
    (1, None, ""),
    guess=True,
)


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_build_record(tmp_path / RECORD, WHOLE)
    assert read_build_record(tmp_path / RECORD) == WHOLE
    assert [step.output for step in WHOLE.made] == ["a.so"]


def test_steps_of_a_build_whose_clock_ran_ahead_are_not_of_the_next() -> None:
    ahead = TimedStep("ahead.o", "ahead.cpp", 9000.0, 9001.0)
    assert replace(WHOLE, steps=(*WHOLE.steps, ahead)).made == WHOLE.made


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-2],
        lambda text: b"[]",
        lambda text: b"\xff",
        lambda text: text.replace(b'"shape":2', b'"shape":1'),
        lambda text: text.replace(b'"running":[', b'"more":1,"running":['),
        lambda text: b"[" * 100_000,
    ],
)
def test_what_is_no_record_of_this_release_is_none(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    write_build_record(tmp_path / RECORD, WHOLE)
    text = (tmp_path / RECORD).read_bytes()
    assert change(text) != text
    (tmp_path / RECORD).write_bytes(change(text))
    assert read_build_record(tmp_path / RECORD) is None


def test_a_build_runs_only_as_long_as_its_process() -> None:
    own = (os.getpid(), start_time(os.getpid()), machine_id())
    assert replace(WHOLE, owner=own).now == "running"
    assert replace(WHOLE, owner=own, state="failed").now == "failed"
    if machine_id():
        assert replace(WHOLE, owner=(own[0], 1, own[2])).now == "ended"
    elsewhere = (own[0], own[1], "another")
    assert replace(WHOLE, owner=elsewhere, updated=time.time()).now == "running"
    assert replace(WHOLE, owner=elsewhere).now == "ended"


def test_a_build_knows_its_own_steps_best_and_those_of_all_others(tmp_path: Path) -> None:
    def kept(name: str, updated: float, *steps: TimedStep) -> Path:
        path = tmp_path / name / RECORD
        write_build_record(path, replace(WHOLE, updated=updated, steps=steps))
        return path

    own = kept("builds/own", 1.0, TimedStep("a.o", "a.cpp", 0, 10, cost=10))
    late = kept(
        "builds/late",
        3.0,
        TimedStep("a.o", "a.cpp", 0, 30, cost=30),
        TimedStep("b.o", "b.cpp", 0, 31, cost=31),
    )
    early = kept(
        "extensions/early/kernels._C",
        2.0,
        TimedStep("b.o", "b.cpp", 0, 20, cost=20),
        TimedStep("c.o", None, 0, 21, cost=21),
    )
    by_cmake = kept("extensions/cmake", 1.5)
    # The latest, by the setting build-dir.
    elsewhere = kept("elsewhere", 9.0)
    (tmp_path / "last-build.txt").write_text(str(elsewhere.with_name("build.log")))
    (tmp_path / "builds/other").mkdir()
    (tmp_path / "builds/other" / RECORD).write_text("{}")
    assert [path for path, _ in read_build_records(tmp_path)] == [elsewhere, late, early, by_cmake, own]
    seconds = {name: step.cost for name, step in measured_steps(tmp_path, own).items()}
    assert seconds == {"a.o": 10, "b.o": 31, "c.o": 21}


def test_what_a_compiler_cache_answered_says_only_what_it_took_before(tmp_path: Path) -> None:
    own = tmp_path / "builds/own" / RECORD
    known = TimedStep("b.o", "b.cpp", 0, 0.1, 7, hit=True, cost=30)
    write_build_record(own, replace(WHOLE, steps=(TimedStep("a.o", "a.cpp", 0, 0.1, hit=True), known)))
    assert measured_steps(tmp_path, own) == {"b.o": known}
