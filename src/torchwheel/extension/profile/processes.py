"""Running a compiler and measuring what it took."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from torchwheel.extension.profile.model import Usage

# ru_maxrss is in KiB, on macOS in bytes: https://man7.org/linux/man-pages/man2/getrusage.2.html
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1 << 10

_NOT_FOUND = 127


@dataclass(frozen=True)
class Finished:
    """A process that has ended.

    Attributes:
        status: its exit status; negative for the signal that ended it.
        output: what it wrote to stdout and stderr.
        usage: what it took.
    """

    status: int
    output: str
    usage: Usage


def run_measured(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], scratch: Path
) -> Finished:
    """Run a command to its end.

    Args:
        command: program and arguments.
        folder: its working directory.
        environment: its whole environment.
        scratch: a file for its output; a pipe would have to be read while it runs.
    """
    with scratch.open("w+b") as output:
        started = time.perf_counter()
        try:
            status, processor, peak = _wait(command, folder, environment, output)
        except OSError as failure:
            return Finished(_NOT_FOUND, str(failure), Usage(time.perf_counter() - started))
        seconds = time.perf_counter() - started
        output.seek(0)
        text = output.read().decode("utf-8", "replace")
    return Finished(status, text, Usage(seconds, processor, peak))


def _wait(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], output: IO[bytes]
) -> tuple[int, float | None, int | None]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    if sys.platform == "win32":
        return process.wait(), None, None
    # A compiler's driver waits for the programs that it starts, so its usage holds theirs.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _MAXRSS_UNIT
