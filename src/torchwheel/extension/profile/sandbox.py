"""Where compiles are measured: a folder to run in, a folder for what they write, and a record of what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchwheel._files import write_if_changed
from torchwheel.extension.compile.units import write_links
from torchwheel.extension.model import Language
from torchwheel.extension.profile.invocation import Invocation
from torchwheel.extension.profile.model import Compiles, Usage

Say = Callable[[str], None]
"""Shows the user what is being measured."""

_SUFFIXES = {Language.C: ".c", Language.CXX: ".cpp", Language.CUDA: ".cu"}
_NOT_FOUND = 127

# A child's peak of memory is at least that of the process that starts it, since exec keeps the peak of the memory
# that it replaces (Linux: mm/exec_mmap, setmax_mm_hiwater_rss). So a small interpreter starts the compiler. ru_maxrss
# is in KiB, on macOS in bytes: https://man7.org/linux/man-pages/man2/getrusage.2.html
_STARTER = """
import os, sys, time
report, *command = sys.argv[1:]
started = time.perf_counter()
try:
    process = os.posix_spawnp(command[0], command, os.environ)
except OSError as failure:
    print(failure)
    sys.exit(127)
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - started
peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
with open(report, "w") as file:
    file.write(str([os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, peak]))
"""


@dataclass(frozen=True)
class Finished:
    """A process that has ended.

    Attributes:
        status: its exit status; negative for the signal that ended it.
    """

    status: int
    output: str
    usage: Usage


def run_measured(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], scratch: Path
) -> Finished:
    """Run a command to its end.

    Args:
        scratch: an existing folder for its output; a pipe would have to be read while it runs.
    """
    report, text = scratch / "usage.json", scratch / "output.txt"
    report.unlink(missing_ok=True)
    whole = list(command)
    if sys.platform != "win32":
        whole = [sys.executable, "-I", "-S", "-c", _STARTER, str(report), *command]
    started = time.perf_counter()
    with text.open("wb") as output:
        try:
            done = subprocess.run(
                whole,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as failure:
            return Finished(_NOT_FOUND, str(failure), Usage(time.perf_counter() - started))
    status, usage = done.returncode, Usage(time.perf_counter() - started)
    if report.is_file():
        # A compiler's driver waits for the programs that it starts, so its usage holds theirs.
        status, *took = json.loads(report.read_text(encoding="utf-8"))
        usage = Usage(*took)
    return Finished(status, text.read_bytes().decode("utf-8", "replace"), usage)


class Sandbox:
    """Runs compilers one at a time, so that they do not disturb each other's times.

    Attributes:
        folder: where commands run.
        scratch: a folder for outputs, deleted in the end.
    """

    def __init__(self, folder: Path, scratch: Path, environment: Mapping[str, str], say: Say) -> None:
        self.folder = folder
        self.scratch = scratch
        # The reports are to be in English, and ccache may stand behind a compiler's name and answer at no cost.
        self._environment = {**environment, "LC_ALL": "C", "CCACHE_DISABLE": "1"}
        self._say = say
        self._read: dict[tuple[Invocation, tuple[str, ...]], float | None] = {}

    def run(self, command: Sequence[str], what: str, folder: str = ".") -> Finished:
        """Run a command in a folder below the build folder; ``what`` is shown to the user."""
        self._say(what)
        return run_measured(command, self.folder / folder, self._environment, self.scratch)

    def header_seconds(self, invocation: Invocation, headers: tuple[str, ...]) -> float | None:
        """What a source pays for headers: reading one with nothing but these, less reading an empty one.

        None where they do not compile by themselves. The same question is measured once.
        """
        whole = self._reading(invocation, headers)
        empty = self._reading(invocation, ())
        return None if whole is None or empty is None else max(0.0, whole - empty)

    def _reading(self, invocation: Invocation, headers: tuple[str, ...]) -> float | None:
        key = (invocation, headers)
        if key not in self._read:
            source = self.scratch / f"headers{_SUFFIXES[invocation.language]}"
            source.write_text("".join(f"#include <{name}>\n" for name in headers), encoding="utf-8")
            command = invocation.reading(str(source), self.scratch / "headers.o")
            what = f"headers alone: {', '.join(headers)}" if headers else "an empty source"
            finished = self.run(command, what, invocation.folder)
            self._read[key] = finished.usage.cost if finished.status == 0 else None
        return self._read[key]


@contextmanager
def open_sandbox(compiles: Compiles, environment: Mapping[str, str], say: Say) -> Iterator[Sandbox]:
    """A sandbox for the compiles of a project; the project and its build folder stay as they are."""
    with tempfile.TemporaryDirectory(prefix="torchwheel-profile-", ignore_cleanup_errors=True) as name:
        scratch, build = Path(name, "scratch"), Path(name, "build")
        scratch.mkdir()
        if compiles.folder is None:
            build.mkdir()
            write_links(build, compiles.links)
            for path, content in compiles.generated.items():
                write_if_changed(build / path, content)
        yield Sandbox(compiles.folder or build, scratch, environment, say)
