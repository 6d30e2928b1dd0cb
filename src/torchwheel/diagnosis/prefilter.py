"""Find the lines of a log that contain any of hundreds of literals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

PARTS_KEPT = 50_000
"""Maximum parts of lines without needles to remember, plus those of a block."""
LONGEST_PART = 500
"""Bytes of a part to remember."""
_AS_PARTS = bytes.maketrans(b"/123456789", b"\n000000000")
"""Splits at slashes, and makes all numbers of one length equal."""


@dataclass(frozen=True)
class Hit:
    """A line with at least one needle."""

    start: int
    end: int
    position: int
    needles: list[str]


class Prefilter:
    """Searches blocks for needles.

    ``bytes.find`` for one literal after the other reads more than a gigabyte a second, a combined regular expression of
    the same literals some megabytes. There are hundreds of them, and the parts of a log's lines between slashes repeat
    in thousands of lines, apart from digits, so each is searched once. A block with little repetition is searched
    directly.
    """

    def __init__(self, needles: Iterable[str]) -> None:
        self._needles = sorted(set(needles))
        self._without_needles: set[bytes] = set()

    def find_hits(self, block: bytes, only: Iterable[str] = ()) -> Iterator[Hit]:
        """Yield the lines of ``block`` with needles, in order.

        Args:
            only: the needles to search for; empty for all.
        """
        found: dict[int, Hit] = {}
        for needle in only or self._possible_needles(block):
            for start, position, end in _lines_with(block, needle.encode()):
                found.setdefault(start, Hit(start, end, position, [])).needles.append(needle)
        yield from (found[start] for start in sorted(found))

    def _possible_needles(self, block: bytes) -> list[str]:
        parts = set(block.translate(_AS_PARTS).split(b"\n")) - self._without_needles
        text = b"\n".join(parts)
        if len(text) > len(block) // 2:
            return self._needles
        possible = []
        for needle in self._needles:
            literal = needle.encode().translate(_AS_PARTS)
            # The block was split at slashes, so no part contains such a needle.
            if b"\n" in literal:
                possible.append(needle)
            elif literal in text:
                possible.append(needle)
                parts.difference_update(text[start:end] for start, _, end in _lines_with(text, literal))
        if len(self._without_needles) > PARTS_KEPT:
            self._without_needles.clear()
        self._without_needles.update(part for part in parts if len(part) <= LONGEST_PART)
        return possible


def _lines_with(block: bytes, literal: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the start of each line with a literal, the position of the first one, and the end of the line."""
    position = block.find(literal)
    while position >= 0:
        start = block.rfind(b"\n", 0, position) + 1
        end = block.find(b"\n", position)
        end = len(block) if end < 0 else end
        yield start, position, end
        position = block.find(literal, end)
