"""Literals that a regular expression cannot do without, and what may be found in a text by them.

Hundreds of expressions are tried on a line of a log, and most of them need words that are not in it. To see that takes
a hundredth of the time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_PIECE = 3
"""Characters by which a literal is looked up."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


@cache
def needed(regex: re.Pattern[str]) -> Sequence[str]:
    """Literals one of which stands in every text in which the expression is found; none where nobody knows them."""
    parser = _parser()
    if parser is None or regex.flags & re.IGNORECASE:
        return ()
    return _needed(parser.parse(regex.pattern, regex.flags))


class ByLiteral(Generic[_T]):
    """Things that are found by regular expressions.

    Args:
        things: each with literals one of which stands in every text in which it is found; none where nobody knows.
    """

    def __init__(self, things: Iterable[tuple[_T, Sequence[str]]]) -> None:
        self._things: list[_T] = []
        self._always: list[int] = []
        self._by_piece: dict[str, list[int]] = {}
        literals = []
        for number, (thing, some) in enumerate(things):
            self._things.append(thing)
            literals.append(some)
            if not literals[number] or min(map(len, literals[number])) < _PIECE:
                self._always.append(number)
                literals[number] = ()
        common = Counter(piece for some in literals for piece in {p for one in some for p in _pieces(one)})
        for number, some in enumerate(literals):
            for rarest in {min(sorted(_pieces(one)), key=common.__getitem__) for one in some}:
                self._by_piece.setdefault(rarest, []).append(number)

    def candidates(self, text: str) -> list[_T]:
        """Those that may be found in the text, in the order in which they were given."""
        pieces = _pieces(text) & self._by_piece.keys()
        numbers = {*self._always, *(number for piece in pieces for number in self._by_piece[piece])}
        return [self._things[number] for number in sorted(numbers)]


# A line is looked up in several indexes, one after the other.
@lru_cache(maxsize=4)
def _pieces(text: str) -> frozenset[str]:
    return frozenset({text[i : i + _PIECE] for i in range(len(text) - _PIECE + 1)})


def _parser() -> Any:
    """Python's parser of regular expressions, which is no public part of it; None where there is none of that name."""
    for name in ("re._parser", "sre_parse"):  # the second in Python 3.10
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


def _needed(sequence: Any) -> Sequence[str]:
    choices: list[Sequence[str]] = []
    run = ""
    for operator, value in sequence:
        name = str(operator)
        if name == "LITERAL":
            run += chr(value)
            continue
        choices.append([run])
        run = ""
        if name == "SUBPATTERN" and not value[1] & re.IGNORECASE:
            choices.append(_needed(value[3]))
        elif name in _REPEATS and value[0]:
            choices.append(_needed(value[2]))
        elif name == "BRANCH":
            branches = [_needed(branch) for branch in value[1]]
            choices.append([one for branch in branches for one in branch] if all(branches) else ())
    choices.append([run])
    return max(
        (choice for choice in choices if all(choice)),
        key=lambda some: min(map(len, some), default=0),
        default=(),
    )
