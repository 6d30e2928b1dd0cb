"""What the user sees of a command that is followed: its lines, and the progress beside them.

On a terminal a bar stays below the lines; elsewhere a line comes now and then. Ninja writes all that a step printed at
once, so nothing gets in between a compiler's errors where it is written before a line of ninja's own, or after a pause.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from torchwheel.host.ninja import parse_progress
from torchwheel.progress.record import Record
from torchwheel.terminal import QUIET, forward

SECONDS_BETWEEN_LINES = 60.0
_SECONDS_OF_PAUSE = 5.0


class Screen(Protocol):
    """Where lines and progress go; both may come at once, from two threads."""

    def line(self, line: bytes) -> None:
        """Show a line of the command's output."""

    def update(self, record: Record) -> None:
        """Show how far the build is."""


def screen() -> AbstractContextManager[Screen]:
    """The screen that fits standard output."""
    if QUIET.get():
        return nullcontext(_Nothing())
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown"):
        # It takes a tenth of a second to import rich, which only a terminal needs.
        from torchwheel.progress.bar import progress_bar

        return progress_bar()
    return nullcontext(_Lines())


class _Nothing:
    def line(self, line: bytes) -> None:
        pass

    def update(self, record: Record) -> None:
        pass


class _Lines:
    """All lines as they come, and one of torchwheel's now and then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due = time.monotonic() + SECONDS_BETWEEN_LINES
        self._latest = time.monotonic()
        self._text = ""

    def line(self, line: bytes) -> None:
        with self._lock:
            if parse_progress(line):
                self._tell()
            forward(line)
            self._latest = time.monotonic()

    def update(self, record: Record) -> None:
        with self._lock:
            is_running = record.finished < record.total or (record.build.of_extensions and record.running)
            self._text = record.progress(time.time()) if is_running else ""
            if time.monotonic() - self._latest >= _SECONDS_OF_PAUSE:
                self._tell()

    def _tell(self) -> None:
        if self._text and time.monotonic() >= self._due:
            forward(f"torchwheel: {self._text}\n".encode())
            self._due = time.monotonic() + SECONDS_BETWEEN_LINES
