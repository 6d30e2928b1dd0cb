"""How a failed inner build is described: by its known cause, else by the first errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from torchwheel.engine.failure import inner_failure
from torchwheel.engine.process import ProcessFailed
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.survey import BuildRequest, survey

MINITORCH = Path(__file__).resolve().parents[2] / "examples" / "minitorch"
BACKEND = "the tree's own build backend (scikit_build_core.build) ended with status 1"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    made = make_plan(survey(BuildRequest(MINITORCH, {"target": "cpu", "build-env": "current"}, environment)))
    made.folders.root.mkdir(parents=True)
    return made


def described(plan: Plan, log: bytes) -> str:
    plan.folders.log.write_bytes(log)
    return inner_failure(plan, ProcessFailed(("python",), 1, plan.folders.log)).render()


def test_a_known_cause_comes_with_its_remedies(plan: Plan) -> None:
    lines = [b"[1/9] Building CXX object a.o", b"c++: fatal error: Killed signal terminated program cc1plus"]
    text = described(plan, b"\n".join([*lines, b"ninja: build stopped: subcommand failed."]))
    assert text == (
        f"{plan.folders.source}: {BACKEND}: the system killed cc1plus for lack of memory  [inner-build-failed]\n"
        "    why: Too many compilers ran at once for the memory this machine (or container) has. g++ takes 1 to 2 GB "
        "on PyTorch's largest files, nvcc 3 to 8 GB on attention kernels. "
        f"Line 2 of {plan.folders.log}: c++: fatal error: Killed signal terminated program cc1plus\n"
        "    fix: build with fewer jobs: `-C jobs=2`; without it torchwheel computes them from the usable memory; "
        "leave out what needs most: `-C disable=flash-attention`; or add swap; the finished files are kept, the "
        "build goes on where it stopped"
    )


def test_a_failure_that_no_entry_knows_is_described_by_the_class_of_its_first_error(plan: Plan) -> None:
    text = described(plan, b"fine\na.cpp:3:5: error: nobody knows this\nfine\nb.cpp:1:1: error: nor that\n")
    first, why, *_ = text.splitlines()
    assert first == (
        f"{plan.folders.source}: {BACKEND}: a.cpp does not compile: nobody knows this  [inner-build-failed]"
    )
    assert why == (
        "    why: This is in the source at line 3, not in your installation, unless the file belongs to a library "
        f"whose version does not fit. Line 2 of {plan.folders.log}: a.cpp:3:5: error: nobody knows this"
    )


def test_a_log_without_any_error_is_named(plan: Plan) -> None:
    assert described(plan, b"all is well\n") == (
        f"{plan.folders.source}: {BACKEND}  [inner-build-failed]\n"
        f"    why: its whole output is in {plan.folders.log}\n"
        "    fix: look into it, and build again: what is compiled is kept"
    )


def test_a_full_disk_is_found_though_the_log_says_nothing_of_it(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(plan.folders.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4096))
    assert described(plan, b"ninja: error: loading 'build.ninja': No such file or directory\n") == (
        f"{plan.folders.root}: {BACKEND}, and the disk is full  [disk-full]\n"
        f"    why: compilers and CMake do not always say so; their output is in {plan.folders.log}\n"
        "    fix: make room and build again, which goes on from here, or move torchwheel's cache with "
        "TORCHWHEEL_CACHE_DIR=/another/disk"
    )
