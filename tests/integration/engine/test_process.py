"""Long processes: their output goes to the user, to the log and to the watcher, as it comes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchwheel.diagnosis.scanner import diagnose
from torchwheel.engine.process import ProcessFailed, logged_line, run_streaming
from torchwheel.system.locks import file_lock, machine_id
from torchwheel.system.supervisor import SESSION, session_members, start_time


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
    logged = (tmp_path / "logs" / "a.log").read_bytes().splitlines()
    assert all(re.match(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in logged)
    said = [logged_line(line) for line in logged]
    assert said[0].startswith(b"$ ")
    assert sorted(said[1:]) == [b"eins", b"zwei"]
    assert logged_line(said[1]) == said[1]


def test_a_failure_carries_status_and_log(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    command = python("raise SystemExit(7)")
    with pytest.raises(ProcessFailed) as caught:
        run_streaming(command, folder=tmp_path, environment=os.environ, log=log)
    assert (caught.value.code, caught.value.log) == (7, log)
    assert str(caught.value) == f"{sys.executable} ended with status 7; its output is in {log}"
    # Though the command says nothing at all.
    with log.open("rb") as stream:
        assert not diagnose(stream).explains


def test_a_missing_program_is_a_failure_too(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    with pytest.raises(ProcessFailed) as caught:
        run_streaming([str(tmp_path / "nothing")], folder=tmp_path, environment={}, log=log)
    assert caught.value.code == 127
    assert "cannot be started" in log.read_text(encoding="utf-8")


def test_the_environment_is_what_was_given_and_the_supervisors_mark(tmp_path: Path) -> None:
    own = ("LC_CTYPE", "__CF_USER_TEXT_ENCODING", SESSION)
    code = f"import os; print(sorted(n for n in os.environ if n not in {own}))"
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
    with pytest.raises(Enough):
        run_streaming(
            python(code), folder=tmp_path, environment=os.environ, log=tmp_path / "a.log", watch=watch
        )
    time.sleep(2.5)
    assert not marker.exists()


BUILD = """
import os, sys, time
# A group of its own, as ninja gives to every compiler.
code = "import sys, time\\nwhile True:\\n open(sys.argv[1], 'a').write('x')\\n time.sleep(0.01)"
for name in ("one", "two"):
    os.posix_spawn(sys.executable, [sys.executable, "-c", code, name], os.environ, setpgroup=0)
time.sleep(60)
"""
PARENT = """
import os, pathlib, sys
from torchwheel.system.locks import file_lock
from torchwheel.engine.process import run_streaming
here = pathlib.Path(sys.argv[1])
with file_lock(here / "lock"):
    run_streaming([sys.executable, "-c", sys.argv[2]], folder=here, environment=os.environ, log=here / "log")
"""


def sizes(folder: Path) -> list[int]:
    return [(folder / name).stat().st_size if (folder / name).exists() else 0 for name in ("one", "two")]


def until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return met


@pytest.fixture
def killed_build(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that builds in ``tmp_path``: its command's children have begun to write."""
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), BUILD]) as process:
        try:
            assert until(lambda: min(sizes(tmp_path)) > 0)
            yield process
        finally:
            process.kill()


PACKING = """
import time
open("LICENSE", "w").write("own and bundled")
try:
    open("packing", "w").close()
    time.sleep(60)
finally:
    open("LICENSE", "w").write("own")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_command_that_is_ended_may_put_back_what_it_has_changed(how: str, tmp_path: Path) -> None:
    """As PyTorch's setup.py does with LICENSE, in a tree that is built in place too, where Ctrl-C ends it."""
    # A shell has what it runs in the background ignore SIGINT.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = [sys.executable, "-c", PARENT, str(tmp_path), PACKING]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        assert until(lambda: (tmp_path / "packing").exists())
        leader = supervisor_of(tmp_path)
        process.send_signal(signal.SIGTERM if how == "interrupted" else signal.SIGKILL)
    assert until(lambda: not session_members(leader), seconds=4)
    assert (tmp_path / "LICENSE").read_text(encoding="utf-8") == "own"


def supervisor_of(folder: Path) -> int:
    return int(json.loads((folder / "lock.holder").read_text(encoding="utf-8"))["leader"])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_command_started_ends_with_torchwheel_alone_being_killed(
    tmp_path: Path, killed_build: subprocess.Popen[bytes]
) -> None:
    leader = supervisor_of(tmp_path)
    assert len(session_members(leader)) == 4
    killed_build.kill()
    assert until(lambda: not session_members(leader))
    before = sizes(tmp_path)
    time.sleep(0.1)
    assert sizes(tmp_path) == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_session_without_its_leader_is_ended_only_if_it_was_the_recorded_one(tmp_path: Path) -> None:
    """Its number may have become another's that is dead by now too."""
    code = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'input()'], stdout=-3).pid)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        child = int(leader.stdout.readline())
        leader.wait()
        said = {"leader": leader.pid, "started": 1, "machine": machine_id()}
        (tmp_path / "lock.holder").write_text(json.dumps(said), encoding="utf-8")
        with file_lock(tmp_path / "lock"):
            assert session_members(leader.pid) == [child]


FRONTEND = """
import subprocess, sys
subprocess.run([sys.executable, "-c", *sys.argv[1:]])
"""
HOOK = "from torchwheel.system.supervisor import ending_with_frontend\n" + PARENT.replace(
    "with file_lock", "with ending_with_frontend(), file_lock"
)


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal that Windows has not")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_hook_and_what_it_started_end_with_the_frontend_alone_being_stopped(
    tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen([sys.executable, "-c", FRONTEND, HOOK, str(tmp_path), BUILD]) as frontend:
        assert until(lambda: min(sizes(tmp_path)) > 0)
        frontend.send_signal(number)
        frontend.wait()
    with file_lock(tmp_path / "lock"):
        before = sizes(tmp_path)
        time.sleep(0.1)
        assert sizes(tmp_path) == before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_who_takes_a_lock_over_ends_what_was_left_running(
    number: signal.Signals,
    tmp_path: Path,
    killed_build: subprocess.Popen[bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torchwheel.system.supervisor.GRACE_SECONDS", 0.5)
    leader = supervisor_of(tmp_path)
    # A supervisor that cannot do its work, or is killed as torchwheel is: pkill -9 python.
    os.kill(leader, number)
    killed_build.kill()
    killed_build.wait()
    before = sizes(tmp_path)
    assert until(lambda: sizes(tmp_path) != before)
    with file_lock(tmp_path / "lock"):
        assert not session_members(leader)
        assert not (tmp_path / "lock.holder").exists()
    assert "ending what a killed build left running" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("other", [{"started": 1}, {"machine": "elsewhere"}, {"leader": "x"}])
def test_a_number_that_is_another_process_s_by_now_is_left_alone(
    tmp_path: Path, other: dict[str, object]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as p:
        said = {"leader": p.pid, "started": start_time(p.pid), "machine": machine_id(), **other}
        (tmp_path / "lock.holder").write_text(json.dumps(said), encoding="utf-8")
        with file_lock(tmp_path / "lock"):
            assert p.poll() is None
            assert not (tmp_path / "lock.holder").exists()
        p.communicate(b"\n")
    assert p.returncode == 0


LEAVING = """
import os, subprocess, sys, time
write = "import time\\nwhile True: open('grows', 'a').write('x'); time.sleep(0.01)"
subprocess.Popen([sys.executable, "-c", write], **eval(sys.argv[2]))
while not os.path.exists("grows"): time.sleep(0.01)
exec(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("end", "output", "status"),
    [
        ("sys.exit(3)", "{}", 3),
        ("os.kill(os.getpid(), 9)", "{}", -9),
        # The supervisor alone.
        ("os.kill(os.getppid(), 9)", "{'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL}", -9),
    ],
)
def test_nothing_goes_on_beside_the_next_try(end: str, output: str, status: int, tmp_path: Path) -> None:
    """A venv that was killed left ensurepip, which filled the environment that the next build was removing."""
    with pytest.raises(ProcessFailed) as caught:
        run_streaming(
            [*python(LEAVING), end, output], folder=tmp_path, environment=os.environ, log=tmp_path / "a.log"
        )
    assert caught.value.code == status
    before = (tmp_path / "grows").stat().st_size
    time.sleep(0.1)
    assert (tmp_path / "grows").stat().st_size == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_the_signal_that_ended_a_command_is_seen(tmp_path: Path, number: signal.Signals) -> None:
    command = python(f"import os; os.kill(os.getpid(), {int(number)})")
    with pytest.raises(ProcessFailed) as caught:
        run_streaming(command, folder=tmp_path, environment=os.environ, log=tmp_path / "log")
    assert caught.value.code == -number
