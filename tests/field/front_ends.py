"""Run a front end as a user types it, and keep what it printed."""

from __future__ import annotations

import errno
import os
import pty
import re
import subprocess
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from field.combinations import Combination
from field.surroundings import Shared, Surroundings

SECONDS = 400
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


@dataclass(frozen=True)
class Outcome:
    """How a front end ended.

    Attributes:
        code: its exit status.
        output: all that it printed, without escape sequences.
        commands: what was typed.
    """

    code: int
    output: str
    commands: tuple[str, ...]

    @property
    def ids(self) -> set[str]:
        """The ids of messages in the output."""
        return set(re.findall(r"\[([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\]", self.output))


def run_front_end(combination: Combination, here: Surroundings, shared: Shared) -> Outcome:
    """Build, by way of an sdist where the combination says so."""
    commands, output = [], ""
    source = here.project
    if combination["project"] == "sdist" and combination["front-end"] != "build":
        commands.append(_sdist_command(combination, here, shared))
        code, output = _run(commands[-1], combination, here)
        if code != 0:
            return Outcome(code, output, tuple(map(" ".join, commands)))
        (source,) = (here.root / "sdist").glob("*.tar.gz")
        if combination["front-end"] == "torchwheel":
            source = _unpack(source, here)
    commands.append(_wheel_command(combination, here, shared, source))
    code, more = _run(commands[-1], combination, here)
    return Outcome(code, output + more, tuple(map(" ".join, commands)))


def _settings(here: Surroundings, option: str) -> list[str]:
    return [word for key, value in here.settings.items() for word in (option, f"{key}={value}")]


def _sdist_command(combination: Combination, here: Surroundings, shared: Shared) -> list[str]:
    isolated = combination["environment"] == "isolated" and combination["front-end"] != "torchwheel"
    output = str(here.root / "sdist")
    if combination["front-end"] == "uv":
        options = [] if isolated else ["--no-build-isolation"]
        command = [str(shared.uv), "build", "--sdist", "--python", str(here.python), *options]
    else:
        options = [] if isolated else ["--no-isolation", "--skip-dependency-check"]
        command = [str(here.python), "-m", "build", "--sdist", *options]
    return [*command, *_settings(here, "-C"), "-o", output, str(here.project)]


def _wheel_command(combination: Combination, here: Surroundings, shared: Shared, source: Path) -> list[str]:
    """The command that makes the wheel, or installs the project editable."""
    front_end, editable = combination["front-end"], "editable" in combination["project"]
    python, output, isolated = str(here.python), str(here.output), combination["environment"] == "isolated"
    if front_end == "torchwheel":
        return [
            python,
            "-m",
            "torchwheel.cli.main",
            "build",
            *_settings(here, "-C"),
            "-o",
            output,
            str(source),
        ]
    if front_end == "build":
        options = [] if isolated else ["--no-isolation", "--skip-dependency-check"]
        kind = [] if combination["project"] == "sdist" else ["--wheel"]
        return [python, "-m", "build", *kind, *options, *_settings(here, "-C"), "-o", output, str(source)]
    options = [] if isolated else ["--no-build-isolation"]
    if front_end == "uv" and editable:
        command = [str(shared.uv), "pip", "install", "--python", python, "--no-deps"]
        return [*command, *options, *_settings(here, "-C"), "-e", str(source)]
    if front_end == "uv":
        command = [str(shared.uv), "build", "--wheel", "--python", python]
        return [*command, *options, *_settings(here, "-C"), "-o", output, str(source)]
    what = (
        ["install", "--no-deps", "-e", str(source)]
        if editable
        else ["wheel", "--no-deps", "-w", output, str(source)]
    )
    return [python, "-m", "pip", what[0], *options, *_settings(here, "--config-settings"), *what[1:]]


def _unpack(sdist: Path, here: Surroundings) -> Path:
    folder = here.root / "unpacked"
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    owner = sdist.stat()
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    (unpacked,) = folder.iterdir()
    return unpacked


def _run(command: Sequence[str], combination: Combination, here: Surroundings) -> tuple[int, str]:
    """Exit status and output of a command, whose streams are a pipe or a terminal."""
    is_terminal = combination["stream"] == "terminal"
    stream, other = pty.openpty() if is_terminal else os.pipe()
    process = subprocess.Popen(
        [*here.prefix, *command],
        cwd=here.root,
        env=dict(here.variables),
        stdin=other if is_terminal else subprocess.DEVNULL,
        stdout=other,
        stderr=other,
        umask=here.umask,
        start_new_session=True,
    )
    os.close(other)
    began, chunks = time.monotonic(), list[bytes]()
    try:
        while chunk := _read(stream):
            chunks.append(chunk)
            assert time.monotonic() - began < SECONDS, b"".join(chunks).decode(errors="replace")
        code = process.wait(30)
    finally:
        process.kill()
        process.wait()
        os.close(stream)
    return code, _ESCAPES.sub("", b"".join(chunks).decode(errors="replace"))


def _read(stream: int) -> bytes:
    """The next bytes; none at the end, which a terminal tells by an error."""
    try:
        return os.read(stream, 65536)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""
