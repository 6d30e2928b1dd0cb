"""The launcher in front of compilers: who waits, and that it is otherwise not noticed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
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

    def used(self, mib: int) -> None:
        """Let the control group say that so much is used, beside 3 MiB of files in its cache."""
        (self.folder / "memory.current").write_text(str((mib + 3) << 20))

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        script = [sys.executable, "-I", "-S", str(memory_launcher.__file__), str(self.file)]
        return subprocess.Popen(
            [*script, *map(str, command)],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )

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


def test_where_memory_is_short_one_runs_alone(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 1024, [("", 256)])
    launcher.used(LIMIT_MIB - 256 - 99)
    assert launcher.most_at_once(1, "1.o", "2.o", "3.o") == 1
    launcher.used(LIMIT_MIB - 256 - 100)
    assert launcher.most_at_once(3, "1.o", "2.o", "3.o") == 3


def test_an_interrupted_launcher_says_nothing(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 1024, [("", 256)])
    started = launcher.start("sh", "-c", "touch began; exec sleep 60")
    while not (tmp_path / "began").exists():
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    assert (started.wait(), started.stderr and started.stderr.read(0)) == (-signal.SIGINT, "")


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
