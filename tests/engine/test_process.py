"""Long processes: their output goes to the user, to the log and to the watcher, as it comes."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from torchwheel.engine.process import ProcessFailed, run_streaming


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_reaches_user_log_and_watcher(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    seen: list[str] = []
    command = python("import sys; print('eins'); print('zwei', file=sys.stderr)")
    run_streaming(
        command, folder=tmp_path, environment=os.environ, log=tmp_path / "logs" / "a.log", watch=seen.append
    )
    assert sorted(seen) == ["eins\n", "zwei\n"]
    assert sorted(capfdbinary.readouterr().out.splitlines()) == [b"eins", b"zwei"]
    logged = (tmp_path / "logs" / "a.log").read_text(encoding="utf-8").splitlines()
    assert logged[0].startswith("$ ")
    assert sorted(logged[1:]) == ["eins", "zwei"]


def test_a_failure_carries_command_status_and_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    command = python("raise SystemExit(7)")
    with pytest.raises(ProcessFailed) as caught:
        run_streaming(command, folder=tmp_path, environment=os.environ, log=log)
    assert (caught.value.command, caught.value.code, caught.value.log) == (tuple(command), 7, log)
    assert str(caught.value) == f"{sys.executable} ended with status 7; its output is in {log}"


def test_a_missing_program_is_a_failure_too(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with pytest.raises(ProcessFailed) as caught:
        run_streaming([str(tmp_path / "nothing")], folder=tmp_path, environment={}, log=log)
    assert caught.value.code == 127
    assert "cannot be started" in log.read_text(encoding="utf-8")


def test_the_environment_is_exactly_what_was_given(tmp_path: Path) -> None:
    code = (
        "import os; print(sorted(n for n in os.environ if n not in ('LC_CTYPE', '__CF_USER_TEXT_ENCODING')))"
    )
    seen: list[str] = []
    run_streaming(
        python(code), folder=tmp_path, environment={"ONLY": "ü"}, log=tmp_path / "a.log", watch=seen.append
    )
    assert seen == ["['ONLY']\n"]


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are POSIX")
def test_a_watcher_that_raises_ends_the_process_and_its_children(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def watch(line: str) -> None:
        if line.startswith("go"):
            raise Enough

    marker = tmp_path / "still-alive"
    child = f"import time, pathlib; time.sleep(2); pathlib.Path({str(marker)!r}).touch()"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print('go', flush=True)\n"
        "time.sleep(60)"
    )
    started = time.monotonic()
    with pytest.raises(Enough):
        run_streaming(
            python(code), folder=tmp_path, environment=os.environ, log=tmp_path / "a.log", watch=watch
        )
    assert time.monotonic() - started < 30
    time.sleep(2.5)
    assert not marker.exists()
