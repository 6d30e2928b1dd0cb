"""The fast first pass: which lines of a block hold one of the literals that telling lines hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


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
    expression of the same literals some tens of megabytes. The budget bounds the time that a log can cost
    which repeats one message a million times; the first cause stands early.
    """

    def __init__(self, needles: Iterable[str], budget: int) -> None:
        self._budgets = dict.fromkeys(sorted(set(needles)), budget)

    def hits(self, block: bytes) -> Iterator[Hit]:
        """The lines of ``block`` with needles, in their order."""
        found: dict[int, tuple[int, int, list[str]]] = {}
        for needle in list(self._budgets):
            self._search(block, needle, found)
        for start in sorted(found):
            end, position, needles = found[start]
            yield Hit(start, end, position, tuple(needles))

    def _search(self, block: bytes, needle: str, found: dict[int, tuple[int, int, list[str]]]) -> None:
        literal = needle.encode("ascii")
        position = block.find(literal)
        while position >= 0:
            start = block.rfind(b"\n", 0, position) + 1
            end = block.find(b"\n", position)
            end = len(block) if end < 0 else end
            found.setdefault(start, (end, position, []))[2].append(needle)
            self._budgets[needle] -= 1
            if not self._budgets[needle]:
                del self._budgets[needle]
                return
            position = block.find(literal, end)
