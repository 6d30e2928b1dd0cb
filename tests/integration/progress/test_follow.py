"""A build is followed by ninja's log and by /proc: each step with its time, source and memory."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ninja_text import ninja_path
from put import put
from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.host.compiler_cache import CCACHE_LOG
from torchwheel.host.ninja import find_ninja
from torchwheel.progress import follow
from torchwheel.progress.build_record import RECORD, Build, TimedStep, read_build_record
from torchwheel.progress.follow import Follower, Graph, follow_build

ENTRIES = [
    {
        "output": "a.dir/x.cpp.o",
        "file": "/tree/src/x.cpp",
        "command": '/bin/c++ -I"/a b" -o a.dir/x.cpp.o -c /x',
    },
    {"output": "lib/a.so", "file": "a.dir/x.cpp.o", "command": ": && /bin/c++ -shared -o lib/a.so && :"},
    {"output": "gen.h", "file": "/tree/gen.py", "command": 'cd /b && /bin/python "/tree/gen.py" --out gen.h'},
    {"output": "sys.c.o", "file": "/usr/share/sys.c", "command": "/bin/cc -o sys.c.o -c /usr/share/sys.c"},
    {"output": "gen.cpp.o", "file": "/build/gen.cpp", "command": "/bin/c++ -o gen.cpp.o -c /build/gen.cpp"},
]


def test_a_program_is_known_by_its_command() -> None:
    graph = Graph(ENTRIES, "/tree", "/build")
    assert graph.sources == {
        "a.dir/x.cpp.o": "src/x.cpp",
        "lib/a.so": None,
        "gen.h": None,
        "sys.c.o": "/usr/share/sys.c",
        "gen.cpp.o": "gen.cpp",
    }
    assert graph.find_output(["/bin/sh", "-c", ENTRIES[1]["command"]]) == "lib/a.so"
    assert graph.find_output(["/bin/sh", "-c", "another"]) is None
    assert graph.find_output(["/bin/c++", "-I/a b", "-o", "a.dir/x.cpp.o", "-c", "/x"]) == "a.dir/x.cpp.o"
    assert graph.find_output(["/bin/python", "/tree/gen.py", "--out", "gen.h"]) == "gen.h"
    assert graph.find_output(["/bin/c++", "-o", "elsewhere.o"]) is None


# 60 MiB, and long enough to be looked at.
_HUNGRY = "import time; held = bytes([1]) * (60 << 20); time.sleep(1.2); open('{}', 'w').close()"


def ninja_folder(tmp_path: Path, commands: Mapping[str, str]) -> Build:
    folder = tmp_path / "a build"
    folder.mkdir(parents=True)
    lines = ["rule run", "  command = $command", ""]
    before = ""
    for output, code in commands.items():
        script = put(tmp_path / "src" / f"{output}.py", code.format(output))
        command = shlex.join([sys.executable, str(script)]).replace("$", "$$")
        lines += [f"build {output}: run {ninja_path(script)} {before}", f"  command = {command}"]
        before = output
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    return Build("name", str(tmp_path), str(tmp_path / "src"), str(folder), str(tmp_path / "build.log"), 1)


def run_ninja(build: Build, path: Path) -> None:
    with follow_build(build, path, path.parent, os.environ) as follower:
        run_ninja_in(build, follower)


def run_ninja_in(build: Build, follower: Follower) -> None:
    ninja = find_ninja(os.environ)
    assert ninja is not None
    run_streaming(
        [ninja, "-C", build.folder, "-j", str(build.jobs)],
        folder=Path(build.folder),
        environment=os.environ,
        log=Path(build.log),
        follow=follower.follow_session,
    )


def test_each_step_is_recorded_with_its_time_and_memory(tmp_path: Path) -> None:
    build = ninja_folder(tmp_path, {"a.o": _HUNGRY, "b.bin": "open('{}', 'w').close()"})
    before = time.time()
    run_ninja(build, tmp_path / RECORD)
    record = read_build_record(tmp_path / RECORD)
    assert record is not None
    assert (record.build, record.now, record.finished, record.total) == (build, "done", 2, 2)
    assert (record.running, record.memory, record.made) == ((), None, record.steps)
    first, second = record.steps
    assert (first.output, first.source, second.output, second.source) == ("a.o", "a.o.py", "b.bin", None)
    assert before < first.start < first.end <= second.start < second.end <= record.updated + 0.01
    assert first.seconds >= 1.2
    if Path("/proc/self/stat").exists():
        assert 60 << 20 < (first.peak or 0) < 200 << 20
    # What ended too soon to be looked at well has no memory rather than a wrong one.
    assert second.seconds >= 1 or second.peak is None


def test_what_runs_is_in_the_record_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    seen = []
    write = follow.write_build_record
    monkeypatch.setattr(follow, "_SECONDS_BETWEEN_WRITES", 0.0)
    monkeypatch.setattr(follow, "write_build_record", lambda *given: (write(*given), seen.append(given[1])))
    build = ninja_folder(tmp_path, {"z.bin": "open('{}', 'w').close()", "a.o": _HUNGRY})
    run_ninja(build, tmp_path / RECORD)
    running = [one for record in seen for one in record.running if one.memory > 60 << 20]
    assert {(one.output, one.source) for one in running} == {("a.o", "a.o.py")}
    assert all(seen[0].started <= one.start <= seen[-1].updated for one in running)
    assert max(record.memory or 0 for record in seen) > 60 << 20


def test_a_build_that_goes_on_with_fewer_jobs_is_followed_on(tmp_path: Path) -> None:
    build = ninja_folder(tmp_path, {"a.o": _HUNGRY})
    with follow_build(build, tmp_path / RECORD, tmp_path, os.environ) as follower:
        for _ in range(2):
            run_ninja_in(build, follower)
            (step,) = follower.record.steps
            assert step.output == "a.o"
            (tmp_path / "a build" / "a.o").unlink()
    assert step.start > follower.record.started + 1
    assert (step.peak or 0) > 60 << 20 or not Path("/proc/self/stat").exists()


def test_steps_of_earlier_builds_stay_known(tmp_path: Path) -> None:
    good, bad = "open('{}', 'w').close()", "raise SystemExit(3)"
    build = ninja_folder(tmp_path, {"a.o": good, "b.o": bad})
    with pytest.raises(ProcessFailed):
        run_ninja(build, tmp_path / RECORD)
    first = read_build_record(tmp_path / RECORD)
    assert first is not None
    # Ninja counts a step that failed, too.
    assert (first.now, first.finished, [step.output for step in first.steps]) == ("failed", 2, ["a.o"])
    # The next build is told how long it takes; nobody is, that this one goes on.
    assert first.left is not None
    assert "left" not in replace(first, total=3).describe_progress(first.updated)
    (tmp_path / "src" / "b.o.py").write_text(good.format("b.o"))
    run_ninja(build, tmp_path / RECORD)
    second = read_build_record(tmp_path / RECORD)
    assert second is not None
    assert (second.now, second.finished, second.total) == ("done", 1, 1)
    assert second.steps[0] == first.steps[0]
    assert [step.output for step in second.steps] == ["a.o", "b.o"]
    assert [step.output for step in second.made] == ["b.o"]


def test_what_a_compiler_cache_answers_is_known_and_does_not_hide_what_it_took_before(tmp_path: Path) -> None:
    quick = "open('{}', 'w').close()"
    build = ninja_folder(tmp_path, {"a.o": "import time; time.sleep(0.3); " + quick, "b.o": quick})
    run_ninja(build, tmp_path / RECORD)
    (first, _) = steps_of(tmp_path)
    for output in ("a.o", "b.o"):
        (tmp_path / "a build" / output).unlink()
    (tmp_path / "src" / "a.o.py").write_text(quick.format("a.o"))
    log = ["# /usr/share/probe.c", "cache_miss", "# ../src/a.o.py", "direct_cache_hit", "local_storage_hit"]
    log += ["# ../src/b.o.py", "cache_miss", "direct_cache_miss", ""]
    (tmp_path / CCACHE_LOG).write_text("\n".join(log))
    run_ninja(build, tmp_path / RECORD)
    second, other = steps_of(tmp_path)
    assert (first.hit, second.hit, other.hit) == (None, True, False)
    assert (first.cost, other.cost) == pytest.approx((first.seconds, other.seconds), abs=0.01)
    assert second.cost == first.cost != second.seconds


def steps_of(folder: Path) -> tuple[TimedStep, ...]:
    record = read_build_record(folder / RECORD)
    assert record is not None
    return record.steps


def test_a_build_goes_on_where_its_recording_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    build = ninja_folder(tmp_path, {"a.o": _HUNGRY})
    monkeypatch.setattr(follow, "session_processes", lambda _leader: 1 // 0)
    monkeypatch.setattr(follow.Follower, "_begin_run", lambda _self: 1 // 0)
    run_ninja(build, tmp_path / RECORD)
    out = capfd.readouterr().out
    assert out.count("torchwheel: what follows is not recorded: ZeroDivisionError: ") == 2
    assert "[1/1] " in out
    record = read_build_record(tmp_path / RECORD)
    assert record is not None
    assert record.now == "done"


def test_an_interrupted_build_says_so(tmp_path: Path) -> None:
    build = ninja_folder(tmp_path, {})
    with pytest.raises(KeyboardInterrupt), follow_build(build, tmp_path / RECORD, tmp_path, os.environ):
        raise KeyboardInterrupt
    record = read_build_record(tmp_path / RECORD)
    assert record is not None
    assert (record.now, record.steps) == ("interrupted", ())
