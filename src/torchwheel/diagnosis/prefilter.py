"""Which lines of a log hold any of some hundred literals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MOST_FOUND = 300_000
"""Needles found in lines: a log of 20 MB in which a handful of needles are in every line has a third of that."""
PARTS_KEPT = 50_000
"""Parts of lines without needles that are remembered, and a block's more."""
LONGEST_PART = 500
"""Bytes; longer ones are not remembered."""
_AS_PARTS = bytes.maketrans(b"/123456789", b"\n000000000")
"""Makes lines of what stands between slashes, and all numbers of one length the same."""


@dataclass(frozen=True)
class Hit:
    """A line that holds at least one needle.

    Attributes:
        start: where the line starts in its block.
        end: where it ends, its line end not included.
        position: where the first needle found in it starts.
        needles: the needles that it holds.
    """

    start: int
    end: int
    position: int
    needles: tuple[str, ...]


class Prefilter:
    """Searches blocks for needles, each with a budget of lines.

    ``bytes.find`` for one literal after the other reads more than a gigabyte a second, a combined regular
    expression of the same literals some tens of megabytes. There are hundreds of them, and what stands between the
    slashes and line ends of a log is the same in thousands of its lines, but for digits: it is searched once. A block
    in which little is repeated is searched as it is.

    The budget bounds the time that a log can cost which repeats one message a million times; the first cause stands
    early.
    """

    def __init__(self, needles: Iterable[str], budget: int, always: Iterable[str] = ()) -> None:
        """Search for needles.

        Args:
            budget: lines for each needle.
            always: those that are searched for when all of them together have found ``MOST_FOUND``.
        """
        self._budgets = dict.fromkeys(sorted({*needles, *always}), budget)
        self._always = frozenset(always)
        self._found = 0
        self._without_needles: set[bytes] = set()

    def hits(self, block: bytes) -> Iterator[Hit]:
        """The lines of ``block`` with needles, in their order."""
        found: dict[int, tuple[int, int, list[str]]] = {}
        for needle in self._possible(block):
            if self._found < MOST_FOUND or needle in self._always:
                self._search(block, needle, found)
        for start in sorted(found):
            end, position, needles = found[start]
            yield Hit(start, end, position, tuple(needles))

    def _possible(self, block: bytes) -> list[str]:
        """The needles that the block may hold."""
        parts = set(block.translate(_AS_PARTS).split(b"\n")) - self._without_needles
        text = b"\n".join(parts)
        if len(text) > len(block) // 2:
            return list(self._budgets)
        possible = []
        for needle in self._budgets:
            literal = needle.encode().translate(_AS_PARTS)
            if b"\n" in literal:
                possible.append(needle)
            elif literal in text:
                possible.append(needle)
                parts.difference_update(text[start:end] for start, _, end in _lines_with(text, literal))
        if len(self._without_needles) > PARTS_KEPT:
            self._without_needles.clear()
        self._without_needles.update(part for part in parts if len(part) <= LONGEST_PART)
        return possible

    def _search(self, block: bytes, needle: str, found: dict[int, tuple[int, int, list[str]]]) -> None:
        for start, position, end in _lines_with(block, needle.encode()):
            found.setdefault(start, (end, position, []))[2].append(needle)
            self._budgets[needle] -= 1
            self._found += 1
            if not self._budgets[needle]:
                del self._budgets[needle]
                return


def _lines_with(block: bytes, literal: bytes) -> Iterator[tuple[int, int, int]]:
    """Where each line starts that holds a literal, where it holds the first one, and where it ends."""
    position = block.find(literal)
    while position >= 0:
        start = block.rfind(b"\n", 0, position) + 1
        end = block.find(b"\n", position)
        end = len(block) if end < 0 else end
        yield start, position, end
        position = block.find(literal, end)
