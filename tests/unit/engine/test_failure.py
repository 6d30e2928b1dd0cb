"""How a failed inner build is described: by its known cause, else by the first errors."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from places import MINITORCH
from torchwheel.engine.process import ProcessFailed, in_checkout, inner_failure, last_lines
from torchwheel.host.ninja import find_ninja
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.reporting.errors import Problem
from torchwheel.survey import BuildRequest, survey

BACKEND = "the tree's own build backend (scikit_build_core.build) ended with status 1"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    made = make_plan(survey(BuildRequest(MINITORCH, {"target": "cpu", "build-env": "current"}, environment)))
    made.folders.root.mkdir(parents=True)
    return made


NINJA = "ninja" if shutil.which("ninja") else find_ninja({})


@pytest.mark.parametrize(
    ("line", "output"),
    [
        (b"FAILED: a.cpp.o\n", "a.cpp.o"),
        (b"FAILED: [code=1] with a space/a.cu.o \n", "'with a space/a.cu.o'"),
        (b"2026-11-22T10:00:00Z FAILED: [code=139] gen/a.h gen/b.cpp\n", "gen/a.h"),
    ],
)
def test_the_step_that_failed_can_be_repeated_alone(plan: Plan, line: bytes, output: str) -> None:
    text = described(plan, b"FAILED\n[3/7] fine\n" + line + b"FAILED: another.o\n")
    folder = shlex.quote(str(plan.folders.build))
    assert text.endswith(f"\n         to repeat the failed step alone: {NINJA} -v -C {folder} {output}")


def described(plan: Plan, log: bytes) -> str:
    return failure(plan, log).render()


def failure(plan: Plan, log: bytes) -> Problem:
    plan.folders.log.write_bytes(log)
    return inner_failure(plan, ProcessFailed("python", 1, plan.folders.log))


def test_a_known_cause_comes_with_its_remedies(plan: Plan) -> None:
    lines = [b"FAILED: torch/a.cpp.o", b"c++: fatal error: Killed signal terminated program cc1plus"]
    text = described(plan, b"\n".join([*lines, b"ninja: build stopped: subcommand failed."]))
    first, why, quotation, *remedies = text.splitlines()
    assert first.startswith(f"{plan.tree.root}: {BACKEND}: ")
    assert first.endswith("  [inner-build-failed]")
    assert why.endswith(f" Line 2 of {plan.folders.log}:")
    assert quotation.strip() == lines[1].decode()
    # Numbered, and then the command that repeats the step.
    assert [line.split()[0] for line in remedies] == ["fix:", "2.", "to"]
    assert remedies[-1].endswith(" torch/a.cpp.o")


def test_a_failure_that_no_entry_knows_is_described_by_the_class_of_its_first_error(plan: Plan) -> None:
    text = described(plan, b"fine\na.cpp:3:5: error: nobody knows this\nfine\nb.cpp:1:1: error: nor that\n")
    first, why, quotation, *_ = text.splitlines()
    assert first.startswith(f"{plan.tree.root}: {BACKEND}: a.cpp ")
    assert why.endswith(f" Line 2 of {plan.folders.log}:")
    assert quotation.strip() == "a.cpp:3:5: error: nobody knows this"


def test_a_log_without_any_error_shows_its_last_lines(plan: Plan) -> None:
    lines = [f"line {number}" for number in range(20)]
    problem = failure(
        plan, "\n\n".join([*lines, "torchwheel: the command ended with exit status 1\n"]).encode()
    )
    assert (problem.id, problem.origin, problem.what) == ("inner-build-failed", str(plan.tree.root), BACKEND)
    why, *last = problem.why.splitlines()
    assert why == f"the last lines of {plan.folders.log} are"
    assert [line.strip() for line in last] == lines[-8:]
    assert str(plan.folders.log) in described(plan, b"")


def test_the_lines_from_the_first_error_on(plan: Plan, tmp_path: Path) -> None:
    """pip names the constraint of a conflict, and then says in many lines what could be tried."""
    conflict = ["ERROR: Cannot install a", "a requires b>1", "(constraint) b<1", *map(str, range(9))]
    log = tmp_path / "log"
    log.write_text("\n".join(["Collecting a", *conflict]) + "\n", encoding="utf-8")
    assert [line.strip() for line in last_lines(log, 0, first="ERROR:").splitlines()[1:]] == conflict
    assert [line.strip() for line in last_lines(log, 0, first="error").splitlines()[1:]] == conflict[-8:]


def test_a_full_disk_is_found_though_the_log_says_nothing_of_it(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(plan.folders.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    assert described(plan, b"ninja: error: loading 'build.ninja': No such file or directory\n") == (
        Problem.of(
            "disk-full/build",
            origin=plan.folders.root,
            what=f"{BACKEND}, and the disk is full",
            log=plan.folders.log,
        ).render()
    )


def test_a_message_of_cmake_is_quoted_whole(plan: Plan) -> None:
    log = b"""-- Looking for it
CMake Error at CMakeLists.txt:12 (message):
  The frobnicator is missing.

  It was looked for in:

    /opt/frob

  Set FROB_ROOT.
Call Stack (most recent call first):
  CMakeLists.txt:40 (include)


-- Configuring incomplete, errors occurred!
"""
    assert [line.strip() for line in failure(plan, log).why.splitlines()[1:]] == [
        "CMake Error at CMakeLists.txt:12 (message):",
        "The frobnicator is missing.",
        "It was looked for in:",
        "/opt/frob",
        "Set FROB_ROOT.",
    ]


def test_a_failure_names_the_file_that_is_to_be_edited(plan: Plan) -> None:
    text = described(plan, f"{plan.folders.source}/c10/a.cpp:3:5: error: nobody knows this\n".encode())
    assert f"{plan.tree.root}/c10/a.cpp:3:5: error" in text
    assert str(plan.folders.source) not in text


def test_what_ccache_shortened_is_named_in_the_checkout_too(plan: Plan) -> None:
    """Its base_dir makes a compiler's paths relative to the folder that ninja builds in."""
    text = described(
        plan,
        b"FAILED: a.o\n../source/c10/a.cpp:3:5: error: \xe2\x80\x98x\xe2\x80\x99 was not declared in this scope\n",
    )
    assert f"{plan.tree.root}/c10/a.cpp does not compile" in text
    assert f"{plan.tree.root}/c10/a.cpp:3:5: error" in text
    assert "../source" not in text


def test_on_the_screen_places_in_the_copy_are_places_in_the_checkout(plan: Plan) -> None:
    show, stage, tree = in_checkout(plan), plan.folders.source, plan.tree.root
    for line, shown in (
        (f"{stage}/c10/a.cpp:3:5: error: no\n", f"{tree}/c10/a.cpp:3:5: error: no\n"),
        (f"from {stage}/c10/a.h:3,\n", f"from {tree}/c10/a.h:3,\n"),
        (f"{stage}/a.cu(7): error: no\n", f"{tree}/a.cu(7): error: no\n"),
        ("../source/a.cu(7): error: no\n", f"{tree}/a.cu(7): error: no\n"),
        ("from ../source/c10/a.h:3,\n", f"from {tree}/c10/a.h:3,\n"),
        ("x/../source/a.cu(7): error: no\n", "x/../source/a.cu(7): error: no\n"),
        (f"g++ -I{stage}/c10 -c {stage}/c10/a.cpp\n", f"g++ -I{stage}/c10 -c {stage}/c10/a.cpp\n"),
    ):
        assert show(line.encode()).decode() == shown
