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

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other locks")
# Writes when it began and when it ended, as a compiler writes its output.
COMPILER = (
    "import sys, time; a = time.time(); time.sleep(0.3); open(sys.argv[2], 'w').write(f'{a} {time.time()}')"
)


class Launcher:
    def __init__(
        self, folder: Path, budget: int, kinds: list[tuple[str, int]], known: dict[str, int] | None = None
    ) -> None:
        self.folder, self.file = folder, folder / "memory.json"
        tokens = str(folder / "tokens")
        settings = {"tokens": tokens, "budget": budget, "kinds": kinds, "known": known or {}}
        self.file.write_text(json.dumps(settings), encoding="utf-8")

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        script = [sys.executable, "-I", "-S", str(memory_launcher.__file__), str(self.file)]
        return subprocess.Popen(
            [*script, *map(str, command)], stderr=subprocess.PIPE, text=True, cwd=self.folder
        )

    def compile(self, *names: str) -> dict[str, tuple[float, float]]:
        """Compile files at once; when each began and ended."""
        running = [self.start(sys.executable, "-c", COMPILER, "-o", name) for name in names]
        assert [one.wait() for one in running] == [0] * len(names)
        times = {name: (self.folder / name).read_text().split() for name in names}
        return {name: (float(began), float(ended)) for name, (began, ended) in times.items()}


def most_at_once(times: dict[str, tuple[float, float]]) -> int:
    return max(
        sum(began <= moment < ended for began, ended in times.values()) for moment, _ in times.values()
    )


def test_as_many_run_as_fit(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 1024, [(r"\.cu\.o", 512), ("", 256)])
    assert most_at_once(launcher.compile(*(f"{n}.cpp.o" for n in range(6)))) == 4
    assert most_at_once(launcher.compile(*(f"{n}.cu.o" for n in range(4)))) == 2


def test_what_is_larger_than_everything_runs_alone(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 512, [("big", 4096), ("", 128)])
    times = launcher.compile("big.o", "1.o", "2.o")
    began, ended = times.pop("big.o")
    assert all(other_end <= began or other_began >= ended for other_began, other_end in times.values())


def test_what_is_known_of_a_file_counts(tmp_path: Path) -> None:
    known = {"1.o": 128, "2.o": 256, "3.o": 128}
    launcher = Launcher(tmp_path, 512, [("", 512)], known)
    assert most_at_once(launcher.compile(*known)) == 3
    assert most_at_once(launcher.compile(*known, "4.o")) == 3


def test_a_killed_compiler_leaves_nothing_behind_and_its_signal_is_seen(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 128, [("", 128)])
    killed = launcher.start(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)", "-o", "killed.o")
    assert killed.wait() == -signal.SIGKILL
    waiting = launcher.start(sys.executable, "-c", "import time; time.sleep(60)")
    time.sleep(0.3)
    waiting.kill()
    waiting.wait()
    assert sorted(launcher.compile("a.o")) == ["a.o"]


def test_status_and_missing_programs_are_passed_on(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, 128, [("", 128)])
    assert launcher.start(sys.executable, "-c", "raise SystemExit(3)").wait() == 3
    missing = launcher.start("no-such-compiler", "-c")
    assert (missing.communicate()[1], missing.returncode) == (
        "no-such-compiler: No such file or directory\n",
        127,
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"budget": 3}', '{"kinds": 1, "budget": "x"}'])
def test_without_readable_settings_the_compiler_just_runs(tmp_path: Path, text: str) -> None:
    launcher = Launcher(tmp_path, 128, [("", 128)])
    launcher.file.write_text(text, encoding="utf-8")
    assert list(launcher.compile("a.o")) == ["a.o"]
