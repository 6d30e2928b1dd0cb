"""The one way to start a long process: its output streams to the user and to a log file at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from torchwheel import _supervisor
from torchwheel._lock_holder import recorded
from torchwheel.engine.job_object import JobObject
from torchwheel.host.programs import end_tree

LineWatcher = Callable[[str], None]
# The supervisor asks for GRACE_SECONDS, then forces.
_TERMINATION_SECONDS = _supervisor.GRACE_SECONDS + 10


class NotStarted(Exception):
    """A command could not be started."""


class ProcessFailed(Exception):
    """A process ended with a failure.

    Attributes:
        command: its argument list.
        code: the exit status; negative for the signal that ended it.
        log: the file that holds everything it printed.
    """

    def __init__(self, command: tuple[str, ...], code: int, log: Path) -> None:
        super().__init__(f"{command[0]} ended with status {code}; its output is in {log}")
        self.command = command
        self.code = code
        self.log = log


def _forward(line: bytes) -> None:
    """Write to the user's screen; a closed or narrow-encoded screen must not end a long build."""
    try:
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(line.decode("utf-8", "replace"))
        else:
            stream.write(line)
            stream.flush()
    except (OSError, ValueError):
        return


def _terminate(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything it started."""
    if sys.platform == "win32":
        end_tree(process.pid)
    elif process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_TERMINATION_SECONDS)
    except subprocess.TimeoutExpired:
        if sys.platform == "win32":
            process.kill()
        else:
            _supervisor.end_session(process.pid)
        process.wait()


@contextmanager
def started(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that ends, with all that it started, when the block or this process does before it.

    Its output is one stream, the process's ``stdout``; where the supervisor cannot start the command, it says so there
    and ends with 127.

    Raises:
        NotStarted: not even its supervisor can be started, or on Windows the command itself.
    """
    windows = sys.platform == "win32"
    supervisor = [] if windows else [sys.executable, "-I", "-S", _supervisor.__file__]
    try:
        process = subprocess.Popen(
            [*supervisor, *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL if windows else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=not windows,
        )
    except OSError as error:
        raise NotStarted(str(error)) from error
    with process, JobObject(process), recorded(process.pid):
        try:
            yield process
            process.wait()
        except BaseException:
            _terminate(process)
            raise


def _end(signum: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end this process in order: in its own session the build would not notice them."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGHUP)
    # nohup's request to survive the terminal is kept.
    before = {n: signal.signal(n, _end) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_streaming(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    watch: LineWatcher | None = None,
) -> None:
    """Run a command, passing on each line of its output as it comes.

    Args:
        command: the argument list.
        folder: its working directory.
        environment: its whole environment.
        log: a file that the output is appended to, undecoded.
        watch: called with each decoded line; an exception from it ends the process and is raised on.

    Raises:
        ProcessFailed: the command could not be started or ended with a status other than 0.
        SystemExit: SIGTERM or SIGHUP ended this process; the command has been ended too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as record, _ended_by_signals():
        record.write(f"$ {subprocess.list2cmdline(command)}\n".encode())
        record.flush()
        try:
            with started(command, folder, environment) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    record.write(line)
                    _forward(line)
                    if watch is not None:
                        record.flush()
                        watch(line.decode("utf-8", "replace"))
                code = process.wait()
        except NotStarted as error:
            record.write(f"cannot be started: {error}\n".encode())
            raise ProcessFailed(tuple(command), 127, log) from error
    if code != 0:
        raise ProcessFailed(tuple(command), code, log)
