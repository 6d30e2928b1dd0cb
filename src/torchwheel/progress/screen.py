"""What the user sees of a command that is followed: its lines, and the progress beside them.

On a terminal a bar stays below the lines; elsewhere a line comes now and then. Ninja writes all that a step printed at
once, so nothing gets in between a compiler's errors where it is written before a line of ninja's own, or after a pause.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

from torchwheel.engine.process import QUIET, forward
from torchwheel.host.ninja import counts
from torchwheel.progress.record import Record
from torchwheel.progress.words import facts_of, line, name, percent
from torchwheel.terminal import duration, file_size, wants_colour

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

SECONDS_BETWEEN_LINES = 60.0
_SECONDS_OF_PAUSE = 5.0
_REFRESHES_A_SECOND = 4
_MOST_ROWS = 8
_LEAST_BAR, _MOST_BAR = 8, 40


class Screen(Protocol):
    """Where lines and progress go; both may come at once, from two threads."""

    def line(self, line: bytes) -> None:
        """Show a line of the command's output."""

    def update(self, record: Record, left: float | None) -> None:
        """Show how far the build is, and the seconds that may be left."""


def screen() -> AbstractContextManager[Screen]:
    """The screen that fits standard output."""
    if QUIET.get():
        return nullcontext(_Nothing())
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown"):
        return _terminal()
    return nullcontext(_Lines())


class _Nothing:
    def line(self, line: bytes) -> None:
        pass

    def update(self, record: Record, left: float | None) -> None:
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
            if counts(line):
                self._tell()
            forward(line)
            self._latest = time.monotonic()

    def update(self, record: Record, left: float | None) -> None:
        with self._lock:
            self._text = line(record, left, time.time()) if 0 < record.total > record.finished else ""
            if time.monotonic() - self._latest >= _SECONDS_OF_PAUSE:
                self._tell()

    def _tell(self) -> None:
        if self._text and time.monotonic() >= self._due:
            forward(f"torchwheel: {self._text}\n".encode())
            self._due = time.monotonic() + SECONDS_BETWEEN_LINES


@contextmanager
def _terminal() -> Iterator[Screen]:
    # Only where there is a terminal: it takes a tenth of a second.
    from rich.console import Console
    from rich.live import Live

    console = Console(
        file=sys.stdout,
        force_terminal=True,
        no_color=not wants_colour(),
        highlight=False,
        markup=False,
        emoji=False,
    )
    bar = _Bar(console)
    with Live(
        console=console,
        get_renderable=lambda: bar,
        refresh_per_second=_REFRESHES_A_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield bar


class _Bar:
    """Ninja's own lines become the bar; one that the step's output follows is shown with that."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._held = ""
        self._progress: tuple[Record, float | None] | None = None

    def line(self, line: bytes) -> None:
        from rich.text import Text

        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if counts(line):
            self._held = text
            return
        for one in filter(None, (self._held, text or " ")):
            self._console.print(Text.from_ansi(one), soft_wrap=True)
        self._held = ""

    def update(self, record: Record, left: float | None) -> None:
        self._progress = (record, left)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if self._progress is None or not 0 < self._progress[0].total > self._progress[0].finished:
            return
        record, left = self._progress
        now, width = time.time(), options.max_width
        count = f"{record.finished:,}/{record.total:,}"
        parts = [f"{percent(record)} %", *facts_of(record, left)]
        room = width - len(count) - 4 - len(", ".join(parts))
        head = Table.grid(padding=(0, 2, 0, 0))
        cells: list[RenderableType] = [Text(count, "bold")]
        if room >= _LEAST_BAR:
            cells.append(
                ProgressBar(total=record.total, completed=record.finished, width=min(room, _MOST_BAR))
            )
        head.add_row(*cells, Text(", ".join(parts), no_wrap=True, overflow="ellipsis"))
        yield head
        running = sorted(record.running, key=lambda one: one.start)
        rows = min(_MOST_ROWS, max(1, options.size.height // 3))
        for step in running[:rows]:
            start = f"{duration(now - step.start):>12}  {file_size(step.memory):>8}  "
            yield Text(start + _end_of(name(step), width - len(start)), "dim", no_wrap=True, overflow="crop")
        if len(running) > rows:
            yield Text(f"{'':>12}  and {len(running) - rows} more", "dim", no_wrap=True, overflow="ellipsis")


def _end_of(text: str, columns: int) -> str:
    """A path cut at its beginning: its end tells most."""
    return text if len(text) <= columns else f"…{text[len(text) - max(0, columns - 1) :]}"
