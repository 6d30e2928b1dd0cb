"""Times from the future are set back without a change of their order, also by a process that is killed meanwhile."""

from __future__ import annotations

import os
from itertools import combinations, permutations
from pathlib import Path

import pytest

from torchwheel.engine.clock import forget_future, set_back

NOW = 1_700_000_000 * 10**9
DAY = 86_400 * 10**9
# Two were made at once; a link's own time says nothing.
TIMES = {
    "source/old.cpp": -9 * DAY,
    "source/new.h": -50,
    "build/config.h": DAY,
    "build/a.o": DAY + 10,
    "build/copy-of-a.o": DAY + 10,
    "source/edited.cpp": 2 * DAY,
    "build/b.o": 2 * DAY + 1,
}
LOGGED = {"a.o": DAY + 5, "b.o": 2 * DAY + 1, "gone.o": 3 * DAY, "old.o": -8 * DAY}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in TIMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "build/link").symlink_to("/")
    lines = [f"{number}\t9\t{NOW + time}\t{name}\tab12" for number, (name, time) in enumerate(LOGGED.items())]
    (tmp_path / "build/.ninja_log").write_text("\n".join(["# ninja log v7", *lines, ""]), encoding="utf-8")
    for name in ("source", "build", "build/.ninja_log"):
        os.utime(tmp_path / name, ns=(NOW - DAY, NOW - DAY))
    for name, time in TIMES.items():
        os.utime(tmp_path / name, ns=(NOW + time, NOW + time))
    return tmp_path


def times_in(folder: Path) -> dict[str, int]:
    lines = (folder / "build/.ninja_log").read_text(encoding="utf-8").splitlines()[1:]
    logged = {f"log of {fields[3]}": int(fields[2]) - NOW for fields in (line.split("\t") for line in lines)}
    return {name: (folder / name).stat().st_mtime_ns - NOW for name in TIMES} | logged


def order(times: dict[str, int]) -> list[int]:
    return [
        (times[one] > times[other]) - (times[one] < times[other]) for one, other in combinations(times, 2)
    ]


def test_the_order_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = times_in(folder)
    set_back([folder], NOW)
    said = capsys.readouterr().out
    assert said.startswith("torchwheel: the clock was set back: 5 files of earlier builds, up to 2023-11-1")
    assert said.count("\n") == 1
    after = times_in(folder)
    assert order(after) == order(before)
    assert max(after.values()) == 0
    assert {name for name in after if after[name] == before[name]} == {
        "source/old.cpp",
        "source/new.h",
        "log of old.o",
    }
    set_back([folder / "source"], NOW)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("done", range(len(TIMES)))
def test_it_stays_where_that_is_interrupted(folder: Path, done: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an object was made of never comes to look older than it, if it did not before."""
    before, left, set_time = times_in(folder), [done], os.utime

    def kill(path: Path, ns: tuple[int, int]) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        set_time(path, ns=ns)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "utime", kill)
        set_back([folder], NOW)
        raise KeyboardInterrupt
    set_back([folder], NOW + 7)
    after = times_in(folder)
    for one, other in permutations(TIMES, 2):
        assert after[one] < after[other] or before[one] >= before[other]
    for name in ("a.o", "b.o"):
        for source in TIMES:
            assert after[f"log of {name}"] < after[source] or before[f"log of {name}"] >= before[source]


def test_in_place_only_what_cmake_and_ninja_wrote_tells(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build = folder / "build"
    (build / "CMakeCache.txt").touch()
    os.utime(build / "CMakeCache.txt", ns=(NOW, NOW))
    forget_future(build, NOW)
    assert capsys.readouterr().out == ""
    os.utime(build / ".ninja_log", ns=(NOW + 1, NOW + 1))
    forget_future(build, NOW)
    assert capsys.readouterr().out.endswith("; all is compiled again\n")
    assert sorted(path.name for path in build.iterdir()) == ["a.o", "b.o", "config.h", "copy-of-a.o", "link"]
    assert {path.stat().st_mtime_ns for path in build.iterdir() if not path.is_symlink()} == {NOW}
    assert times_of(folder / "source") == {"old.cpp": -9 * DAY, "new.h": -50, "edited.cpp": 2 * DAY}


def times_of(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns - NOW for path in folder.iterdir()}


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_back([tmp_path / "none"], NOW)
    forget_future(tmp_path / "none", NOW)
    assert capsys.readouterr().out == ""
