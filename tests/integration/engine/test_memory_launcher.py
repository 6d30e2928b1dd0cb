"""The launcher in front of compilers: who waits, who is stopped, and that it is otherwise not noticed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from torchwheel.engine import memory_launcher
from torchwheel.engine.memory_launcher import LauncherSettings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other locks")
# Waits until as many run at once as are expected, and writes how many did.
COMPILER = """
import os, pathlib, sys, time
name, expected = pathlib.Path(sys.argv[2]), int(sys.argv[3])
running, enough = pathlib.Path("running"), pathlib.Path("enough")
(running / name.name).touch()
for _ in range(600):
    if enough.exists() or len(os.listdir(running)) >= expected:
        break
    time.sleep(0.05)
enough.touch()
time.sleep(0.2)
name.write_text(str(len(os.listdir(running))))
(running / name.name).unlink()
"""


# Says that it began, with the number of a program that it started, and goes on until it may end. Where it is ended
# before, memory is free again.
PATIENT = """
import os, pathlib, signal, subprocess, sys, time

def ended(*_):
    if os.path.exists("memory.after"):
        os.replace("memory.after", "memory.current")
    os._exit(1)

signal.signal(signal.SIGTERM, ended)
name = pathlib.Path(sys.argv[2])
child = subprocess.Popen(["sleep", "60"])
pathlib.Path(os.environ["TMPDIR"], f"tmpxft_{os.getpid():08x}_0.cpp").touch()
with open(name.with_suffix(".began"), "a") as began:
    print(child.pid, file=began)
for _ in range(1200):
    if pathlib.Path("end").exists():
        break
    time.sleep(0.05)
child.kill()
child.wait()
name.touch()
"""
LIMIT_MIB = 4096


class Launcher:
    def __init__(
        self, folder: Path, budget: int, kinds: list[tuple[str, int]], known: dict[str, int] | None = None
    ) -> None:
        self.folder, self.file = folder, folder / "memory.json"
        (folder / "memory.stat").write_text("anon 4\ninactive_file 2097152\nactive_file 1048576\nslab 5\n")
        self.used(0)
        group = (LIMIT_MIB << 20, str(folder / "memory.current"), str(folder / "memory.stat"))
        settings = LauncherSettings(str(folder / "tokens"), budget, 100, [group], known or {}, kinds)
        self.file.write_text(json.dumps(settings._asdict()), encoding="utf-8")

    def used(self, mib: int, after: int | None = None) -> None:
        """Let the control group say that so much is used, and ``after`` once one is stopped, beside 3 MiB of files in
        its cache.
        """
        if after is not None:
            (self.folder / "memory.after").write_text(str((after + 3) << 20))
        new = self.folder / "memory.new"
        new.write_text(str((mib + 3) << 20))
        new.replace(self.folder / "memory.current")

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        script = [sys.executable, "-I", "-S", str(memory_launcher.__file__), str(self.file)]
        return subprocess.Popen(
            [*script, *map(str, command)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, "TMPDIR": str(self.folder)},
        )

    def patient(self, name: str) -> subprocess.Popen[str]:
        """Start a command that goes on until the file "end" is there, and wait until it began."""
        started = self.start(sys.executable, "-c", PATIENT, "-o", name)
        self.wait_for(lambda: len(self.children(name)) == 1)
        return started

    def children(self, name: str) -> list[int]:
        """The numbers of what a patient command started each time that it began."""
        file = (self.folder / name).with_suffix(".began")
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []

    @staticmethod
    def wait_for(condition: Callable[[], bool]) -> None:
        for _ in range(600):
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError("it never came to be")

    def most_at_once(self, expected: int, *names: str) -> int:
        """Compile files at once; how many ran at most, of which as many as ``expected`` are waited for."""
        (self.folder / "running").mkdir(exist_ok=True)
        (self.folder / "enough").unlink(missing_ok=True)
        started = [self.start(sys.executable, "-c", COMPILER, "-o", name, str(expected)) for name in names]
        assert [one.wait() for one in started] == [0] * len(names)
        return max(int((self.folder / name).read_text()) for name in names)


def test_as_many_run_as_fit(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 1024, [(r"\.cu\.o", 512), ("", 256)])
    assert launcher.most_at_once(4, *(f"{n}.cpp.o" for n in range(6))) == 4
    assert launcher.most_at_once(2, *(f"{n}.cu.o" for n in range(4))) == 2


def test_where_memory_runs_short_the_one_that_began_last_is_stopped_and_begun_again(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 1024, [("", 256)])
    names = ("1.o", "2.o", "3.o")
    started = [launcher.patient(name) for name in names]
    # Afterwards there is not enough for twice of what it wanted at first and what stays free.
    launcher.used(LIMIT_MIB - 99, after=LIMIT_MIB - 512 - 99)
    (child,) = launcher.children("3.o")
    launcher.wait_for(lambda: not Path(f"/proc/{child}").exists())
    time.sleep(0.5)
    assert [len(launcher.children(name)) for name in names] == [1, 1, 1]
    launcher.used(LIMIT_MIB - 512 - 100)
    launcher.wait_for(lambda: len(launcher.children("3.o")) == 2)
    (tmp_path / "end").touch()
    said = [one.communicate()[1] for one in started]
    assert [one.returncode for one in started] == [0, 0, 0]
    assert said[:2] == ["", ""]
    assert re.fullmatch(
        r"torchwheel: memory ran short: 3\.o was stopped after \d+ s and begun again\n", said[2]
    )
    assert [len(launcher.children(name)) for name in names] == [1, 1, 2]
    # What nvcc leaves of the one that was stopped is deleted.
    assert len(list(tmp_path.glob("tmpxft_*"))) == 3


def test_the_only_one_goes_on_and_the_next_waits_for_it(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 1024, [("", 256)])
    launcher.used(LIMIT_MIB - 50)
    only = launcher.patient("1.o")
    second = launcher.start(sys.executable, "-c", PATIENT, "-o", "2.o")
    time.sleep(0.5)
    # The one that waits holds its tokens, which must not count as another that runs.
    assert [len(launcher.children(name)) for name in ("1.o", "2.o")] == [1, 0]
    (tmp_path / "end").touch()
    assert [one.communicate()[1] for one in (only, second)] == ["", ""]
    assert (only.returncode, second.returncode) == (0, 0)


def test_an_interrupted_launcher_says_nothing(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 1024, [("", 256)])
    started = launcher.patient("1.o")
    started.send_signal(signal.SIGINT)
    (tmp_path / "end").touch()
    assert (started.communicate()[1], started.returncode) == ("", -signal.SIGINT)


def test_what_is_larger_than_everything_runs_alone(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 512, [("big", 4096), ("", 128)])
    assert launcher.most_at_once(1, "1.big.o", "2.big.o") == 1


def test_what_is_known_of_a_file_counts(tmp_path: Path) -> None:
    known = {"1.o": 128, "2.o": 256, "3.o": 128}
    launcher = Launcher(tmp_path, 512, [("", 512)], known)
    assert launcher.most_at_once(3, *known) == 3
    assert launcher.most_at_once(1, "4.o", "5.o") == 1


def test_a_killed_compiler_leaves_nothing_behind_and_its_signal_is_seen(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 128, [("", 128)])
    killed = launcher.start(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)", "-o", "killed.o")
    assert killed.wait() == -signal.SIGKILL
    waiting = launcher.start(sys.executable, "-c", "import time; time.sleep(60)")
    time.sleep(0.3)
    waiting.kill()
    waiting.wait()
    assert launcher.most_at_once(1, "a.o") == 1


def test_status_and_missing_programs_are_passed_on(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 128, [("", 128)])
    assert launcher.start(sys.executable, "-c", "raise SystemExit(3)").wait() == 3
    missing = launcher.start("no-such-compiler", "-c")
    assert (missing.communicate()[1], missing.returncode) == (
        "no-such-compiler: No such file or directory\n",
        127,
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"budget": 3}', json.dumps(dict.fromkeys(LauncherSettings._fields, "x"))]
)
def test_without_readable_settings_the_compiler_just_runs(tmp_path: Path, text: str) -> None:
    launcher = Launcher(tmp_path, 128, [("", 128)])
    launcher.file.write_text(text, encoding="utf-8")
    assert launcher.most_at_once(1, "a.o") == 1
