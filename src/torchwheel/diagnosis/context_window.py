"""A moving window over a log, so that the lines around a place can be seen without keeping the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchwheel.diagnosis.decoding import clean
from torchwheel.diagnosis.model import LogLine

MARGIN_BYTES = 1 << 16
"""How much of the blocks before and after stays visible."""


@dataclass(frozen=True)
class Window:
    """A block of whole lines with what stands before and after it.

    Attributes:
        before: the end of what was read before, whole lines.
        block: the lines in question.
        after: the start of what comes next.
        first_line: the number of the block's first line.
    """

    before: bytes
    block: bytes
    after: bytes
    first_line: int

    @property
    def last_line(self) -> int:
        return self.first_line + self.block.count(b"\n") - self.block.endswith(b"\n")

    def around(self, start: int, end: int, number: int, lines: int) -> tuple[LogLine, ...]:
        """The line ``number``, from ``start`` to ``end`` of the block, with up to ``lines`` lines on each side."""
        # A log may have as many places as lines: of the block, each looks at no more than the margins.
        near = self.block[max(0, start - MARGIN_BYTES - 1) : start]
        head = _whole_lines_at_end(self.before + near if len(near) == start else near)
        tail = (self.block[end : end + MARGIN_BYTES] + self.after)[:MARGIN_BYTES]
        earlier = head.rsplit(b"\n", lines + 1)[:-1][-lines:]
        later = tail.removesuffix(b"\n").split(b"\n", lines + 1)[1 : lines + 1]
        raw = [*earlier, self.block[start:end], *later]
        return tuple(LogLine(number - len(earlier) + i, clean(line)) for i, line in enumerate(raw))


def windows(blocks: Iterable[bytes]) -> Iterator[Window]:
    """Each block together with the ends of its neighbours."""
    before, current, line = b"", None, 1
    for block in blocks:
        if current is not None:
            yield Window(before, current, block[:MARGIN_BYTES], line)
            before, line = _whole_lines_at_end(before + current), line + current.count(b"\n")
        current = block
    if current is not None:
        yield Window(before, current, b"", line)


def _whole_lines_at_end(text: bytes) -> bytes:
    if len(text) <= MARGIN_BYTES:
        return text
    end = text[-MARGIN_BYTES:]
    return end[end.find(b"\n") + 1 :]
