"""The progress bar on a terminal, below the command's output."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from torchwheel.host.ninja import parse_progress
from torchwheel.progress.build_record import BuildRecord
from torchwheel.reporting.terminal import file_size, format_duration, wants_colour

_REFRESHES_A_SECOND = 4
_MOST_ROWS = 8
_LEAST_BAR, _MOST_BAR = 8, 40
_LEAST_WITH_MEMORY = 50
"""Columns of a terminal below which the memory is not shown, to leave room for the file's name."""


@contextmanager
def progress_bar() -> Iterator[Bar]:
    console = Console(file=sys.stdout, force_terminal=True, no_color=not wants_colour())
    bar = Bar(console)
    with Live(
        console=console,
        get_renderable=lambda: bar,
        refresh_per_second=_REFRESHES_A_SECOND,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ):
        yield bar


class Bar:
    """Ninja's own lines become the bar; a line is printed only if output of its step follows."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._held = ""
        self._progress: BuildRecord | None = None

    def show_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if parse_progress(line):
            self._held = text
            return
        for one in filter(None, (self._held, text or " ")):
            self._console.print(Text.from_ansi(one), soft_wrap=True)
        self._held = ""

    def show_progress(self, record: BuildRecord) -> None:
        self._progress = record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        record = self._progress
        if record is None or not 0 < record.total > record.finished:
            return
        now, width = time.time(), options.max_width
        count = f"{record.finished:,}/{record.total:,}"
        parts = [f"{record.percent} %", *record.facts]
        room = width - len(count) - 4 - len(", ".join(parts))
        head = Table.grid(padding=(0, 2, 0, 0))
        cells: list[RenderableType] = [Text(count, "bold")]
        if room >= _LEAST_BAR:
            cells.append(ProgressBar(record.total, record.finished, min(room, _MOST_BAR)))
        head.add_row(*cells, Text(", ".join(parts), no_wrap=True, overflow="ellipsis"))
        yield head
        running = sorted(record.running, key=lambda one: one.start)
        rows = min(_MOST_ROWS, max(1, options.size.height // 3))
        for step in running[:rows]:
            start = format_duration(now - step.start)
            if width >= _LEAST_WITH_MEMORY:
                start = f"{start:>12}  {file_size(step.memory):>8}"
            start += "  "
            yield Text(start + _end_of(step.name, width - len(start)), "dim", no_wrap=True, overflow="crop")
        if len(running) > rows:
            yield Text(f"{'':>12}  and {len(running) - rows} more", "dim", no_wrap=True, overflow="ellipsis")


def _end_of(text: str, columns: int) -> str:
    """Cut a path at its beginning, because its end is more specific."""
    return text if len(text) <= columns else f"…{text[len(text) - max(0, columns - 1) :]}"
