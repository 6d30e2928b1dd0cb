"""The one way to start a long process: its output streams to the user and to a log file at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LineWatcher = Callable[[str], None]
_TERMINATION_SECONDS = 10.0


@dataclass(frozen=True)
class ProcessFailed(Exception):
    """A process ended with a failure.

    Attributes:
        command: its argument list.
        code: the exit status; negative for the signal that ended it.
        log: the file that holds everything it printed.
    """

    command: tuple[str, ...]
    code: int
    log: Path


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
        process.terminate()
    else:
        try:
            os.killpg(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            return
    try:
        process.wait(_TERMINATION_SECONDS)
    except subprocess.TimeoutExpired:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


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
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as record:
        record.write(f"$ {subprocess.list2cmdline(command)}\n".encode())
        record.flush()
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=sys.platform != "win32",
            )
        except OSError as error:
            record.write(f"cannot be started: {error}\n".encode())
            raise ProcessFailed(tuple(command), 127, log) from error
        try:
            assert process.stdout is not None
            for line in process.stdout:
                record.write(line)
                _forward(line)
                if watch is not None:
                    record.flush()
                    watch(line.decode("utf-8", "replace"))
            code = process.wait()
        except BaseException:
            _terminate(process)
            raise
    if code != 0:
        raise ProcessFailed(tuple(command), code, log)
