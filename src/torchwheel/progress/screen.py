"""Display a followed command: its output, and the progress.

On a terminal a bar stays below the output; elsewhere a line is printed from time to time. Ninja prints the output of a
step at once, so a line before one of ninja's own, or after a pause, never splits a compiler's errors.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from torchwheel.host.ninja import parse_progress
from torchwheel.progress.build_record import BuildRecord
from torchwheel.reporting.terminal import QUIET, forward

SECONDS_BETWEEN_LINES = 60.0
_SECONDS_OF_PAUSE = 5.0


class Screen(Protocol):
    """Shows output and progress, which may come at once from two threads."""

    def show_line(self, line: bytes) -> None:
        """Show a line of the command's output."""

    def show_progress(self, record: BuildRecord) -> None:
        """Show the build's progress."""


def open_screen() -> AbstractContextManager[Screen]:
    """Open the screen that suits standard output."""
    if QUIET.get():
        return nullcontext(_Nothing())
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown"):
        # Importing rich takes a tenth of a second, and only a terminal needs it.
        from torchwheel.progress.bar import progress_bar

        return progress_bar()
    return nullcontext(_Lines())


class _Nothing:
    def show_line(self, line: bytes) -> None:
        pass

    def show_progress(self, record: BuildRecord) -> None:
        pass


class _Lines:
    """Shows all output as it comes, and a line of torchwheel's from time to time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due = time.monotonic() + SECONDS_BETWEEN_LINES
        self._latest = time.monotonic()
        self._text = ""

    def show_line(self, line: bytes) -> None:
        with self._lock:
            if parse_progress(line):
                self._write_progress()
            forward(line)
            self._latest = time.monotonic()

    def show_progress(self, record: BuildRecord) -> None:
        with self._lock:
            is_running = record.finished < record.total or (record.build.of_extensions and record.running)
            self._text = record.describe_progress(time.time()) if is_running else ""
            if time.monotonic() - self._latest >= _SECONDS_OF_PAUSE:
                self._write_progress()

    def _write_progress(self) -> None:
        if self._text and time.monotonic() >= self._due:
            forward(f"torchwheel: {self._text}\n".encode())
            self._due = time.monotonic() + SECONDS_BETWEEN_LINES
