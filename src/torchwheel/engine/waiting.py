"""An interpreter that starts while the plan is made, and then runs the tree's own backend.

A hook of torchwheel takes two interpreters. The second takes 25 ms to start and as long to import what every backend
does, about as much as making the plan takes; on two cores they need not wait for each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROGRAM = Path(__file__).with_name("awaited.py")

# An interpreter reads these when it starts; two of them have options that say the same.
_AT_START = ("PYTHON", "LC_", "LANG")
_AS_OPTIONS = {"PYTHONDONTWRITEBYTECODE": "-B", "PYTHONUNBUFFERED": "-u"}

_waiting: list[subprocess.Popen[bytes]] = []


def start_waiting() -> None:
    """Start the interpreter. It ends by itself if nobody gives it work; where none can be started, that is no error."""
    try:
        process = subprocess.Popen(
            [sys.executable, *_AS_OPTIONS.values(), _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=sys.platform != "win32",
        )
    except OSError:
        return
    _waiting.append(process)


def give_work(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes] | None:
    """Let the waiting interpreter run a command.

    Returns:
        Its process, with the command's output; None if there is none that could run it as a new one would.

    Args:
        command: an interpreter and its arguments.
        folder: the working directory.
        environment: the whole environment.
    """
    if not _waiting:
        return None
    process = _waiting.pop()
    assert process.stdin is not None
    with process.stdin as stream:
        if command[0] != sys.executable or _at_start(environment) != _at_start(os.environ):
            return None
        work = {"environment": dict(environment), "folder": str(folder), "arguments": list(command[1:])}
        try:
            stream.write(json.dumps(work).encode() + b"\n")
            stream.flush()
        except OSError:
            return None
    return process


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_AT_START) and name not in _AS_OPTIONS
    }
