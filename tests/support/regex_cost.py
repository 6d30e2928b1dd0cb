"""What a regular expression costs on a line made against it, in steps of a matcher that backtracks as Python's does.

Every unbounded repetition of a pattern is pumped: what leads up to it once and what it repeats many times, or both many
times, so that the search begins anew at each. The steps of a linear search grow with the line, those of others faster.
They are counted, not timed, so the answer is the same on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

try:
    from re import _compiler as compiler
    from re import _constants as names
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_compile as compiler  # type: ignore[no-redef]
    import sre_constants as names  # type: ignore[no-redef]
    import sre_parse as parser  # type: ignore[no-redef]

SHORT, LONG = 120, 480
UNBOUNDED = 50
"""A repetition that may be longer than this is pumped."""
BOUND = 12
"""How often one that has such a bound is tried: a bound costs the same on every longer line, whichever it is."""
GROWTH = 8
"""Times that a line four times as long may cost; linear is 4, quadratic 16."""
FEW = 30
"""Steps for each character of a long line; what takes less is not compared."""
MOST = 400_000
"""Steps after which a search counts as endless."""
_GREEDY, _LAZY = names.MAX_REPEAT, names.MIN_REPEAT
_POSSESSIVE = getattr(names, "POSSESSIVE_REPEAT", None)
_ATOMIC = getattr(names, "ATOMIC_GROUP", None)
_REPEATS = [one for one in (_GREEDY, _LAZY, _POSSESSIVE) if one is not None]
_ONE_CHARACTER = (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN)
_CHARACTERS = "a1 -/.:'_(\"@\x01\u1234"


class _Endless(Exception):
    """The search takes more than ``MOST`` steps."""


def lines_against(pattern: str, flags: int = 0) -> set[tuple[str, str]]:
    """What to begin a line with, and what to repeat in it."""
    found = set(_pumps(parser.parse(pattern, flags), ""))
    if flags & re.MULTILINE:
        # What begins at each line may take the ends of all lines after it.
        found |= {(start.replace(" ", "\n"), repeated.replace(" ", "\n")) for start, repeated in found}
    return found


def superlinear(regex: re.Pattern[Any]) -> tuple[str, str] | None:
    """The line whose search takes more than linear time; None if there is none."""
    text = regex.pattern.decode("latin-1") if isinstance(regex.pattern, bytes) else regex.pattern
    # Bytes are read as the characters of the same numbers, with the letters and digits of ASCII alone.
    flags = regex.flags & ~re.UNICODE | re.ASCII if isinstance(regex.pattern, bytes) else regex.flags
    for start, repeated in sorted(lines_against(text, flags)):
        # The first one is for exponential time, which would not end on the others.
        for length in (22 * len(repeated), LONG):
            steps = count_steps(text, flags, _line(start, repeated, length))
            if steps > MOST:
                return start, repeated
        if steps > FEW * LONG and steps > GROWTH * count_steps(text, flags, _line(start, repeated, SHORT)):
            return start, repeated
    return None


def count_steps(pattern: str, flags: int, line: str) -> int:
    """The steps of the search for a pattern in a line; more than ``MOST`` if it has no end."""
    search = _Search(parser.parse(pattern, flags), flags, line)
    try:
        search.run()
    except _Endless:
        return MOST + 1
    return search.steps


def _line(start: str, repeated: str, length: int) -> str:
    return (start + repeated * (length // len(repeated)))[: length - 1] + "\x02"


class _Search:
    """One search; each node of the pattern that is tried at a place is a step."""

    def __init__(self, pattern: Any, flags: int, line: str) -> None:
        self.pattern, self.flags, self.line, self.steps = pattern, flags | pattern.state.flags, line, 0
        self.groups: dict[int, tuple[int, int]] = {}

    def run(self) -> None:
        for place in range(len(self.line) + 1):
            if next(self._ends(self.pattern, 0, place), None) is not None:
                return

    def _count(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > MOST:
            raise _Endless

    def _ends(self, sequence: Any, index: int, place: int) -> Iterator[int]:
        """The ends of the matches of a sequence's rest, in the order in which they are tried."""
        if index == len(sequence):
            yield place
            return
        self._count()
        operator, value = sequence[index]
        for end in self._item(operator, value, place):
            yield from self._ends(sequence, index + 1, end)

    def _item(self, operator: Any, value: Any, place: int) -> Iterator[int]:
        if operator in _ONE_CHARACTER:
            if place < len(self.line) and _test(operator, _key(value), self.flags)(self.line[place]):
                yield place + 1
        elif operator is names.AT:
            if self._at(value, place):
                yield place
        elif operator in _REPEATS:
            found = self._repeat(value, place, lazy=operator is _LAZY)
            if operator is not _POSSESSIVE:
                yield from found
            elif (end := next(found, None)) is not None:
                yield end
        elif operator is names.SUBPATTERN:
            for end in self._ends(value[3], 0, place):
                if value[0] is not None:
                    self.groups[value[0]] = (place, end)
                yield end
        elif operator is names.BRANCH:
            for branch in value[1]:
                yield from self._ends(branch, 0, place)
        elif operator is names.GROUPREF:
            start, end = self.groups.get(value, (0, 0))
            if self.line.startswith(self.line[start:end], place):
                yield place + end - start
        elif operator is names.GROUPREF_EXISTS:
            group, there, missing = value
            yield from self._ends((there if group in self.groups else missing) or [], 0, place)
        elif operator is _ATOMIC:
            if (end := next(self._ends(value, 0, place), None)) is not None:
                yield end
        elif operator in (names.ASSERT, names.ASSERT_NOT):
            direction, body = value
            begin = place if direction > 0 else place - body.getwidth()[0]
            met = begin >= 0 and next(self._ends(body, 0, begin), None) is not None
            if met == (operator is names.ASSERT):
                yield place
        else:
            raise AssertionError(f"{operator} is not known here")

    def _repeat(self, value: Any, place: int, *, lazy: bool) -> Iterator[int]:
        least, most, body = value
        if UNBOUNDED <= most < names.MAXREPEAT:
            least, most = min(least, BOUND), BOUND
        if len(body) == 1 and body[0][0] in _ONE_CHARACTER:
            yield from self._run(least, most, body[0], place, lazy=lazy)
            return
        stack = [(place, iter(self._ends(body, 0, place)))]
        if lazy and not least:
            yield place
        while stack:
            begun, ends = stack[-1]
            end = next(ends, None) if len(stack) <= most else None
            # A repetition of nothing ends.
            if end is not None and (end != begun or len(stack) <= least):
                stack.append((end, iter(self._ends(body, 0, end))))
                if lazy and len(stack) > least:
                    yield end
            elif end is None:
                stack.pop()
                if not lazy and len(stack) >= least:
                    yield begun

    def _run(self, least: int, most: int, one: Any, place: int, *, lazy: bool) -> Iterator[int]:
        """The repetition of one character, which is counted before any of its ends is tried."""
        test, end = _test(one[0], _key(one[1]), self.flags), place
        last = len(self.line) if most is names.MAXREPEAT else min(len(self.line), place + most)
        while end < last and test(self.line[end]):
            end += 1
        ends = range(place + least, end + 1)
        self._count(end - place + 1)
        for tried in ends if lazy else reversed(ends):
            self._count()
            yield tried

    def _at(self, kind: Any, place: int) -> bool:
        before, after = self.line[place - 1 : place] if place else "", self.line[place : place + 1]
        many = bool(self.flags & re.MULTILINE)
        if kind in (names.AT_BEGINNING, names.AT_BEGINNING_STRING):
            return not before or (many and before == "\n" and kind is names.AT_BEGINNING)
        if kind is names.AT_END:
            return not after or (many and after == "\n") or self.line[place:] == "\n"
        if kind is names.AT_END_STRING:
            return not after
        sides = [
            bool(side) and re.match(r"\w", side, self.flags & re.ASCII) is not None
            for side in (before, after)
        ]
        return (sides[0] != sides[1]) == (kind is names.AT_BOUNDARY)


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@cache
def _test(operator: Any, value: Any, flags: int) -> Callable[[str], bool]:
    """Whether the node matches a character."""
    state = parser.State()
    state.flags = flags & (re.ASCII | re.IGNORECASE | re.DOTALL) | (0 if flags & re.ASCII else re.UNICODE)
    node = (operator, list(value) if isinstance(value, tuple) else value)
    regex = compiler.compile(parser.SubPattern(state, [node]), state.flags)
    return cache(lambda character: regex.match(character) is not None)


def _pumps(sequence: Any, start: str) -> Iterator[tuple[str, str]]:
    for operator, value in sequence:
        if operator in _REPEATS:
            _, most, body = value
            repeated = _example(body)
            if most >= UNBOUNDED and repeated:
                yield start, repeated
                yield from (("", text) for text in (start, start + repeated) if text)
            yield from _pumps(body, start)
        elif operator is names.SUBPATTERN:
            yield from _pumps(value[3], start)
        elif operator is names.BRANCH:
            for branch in value[1]:
                yield from _pumps(branch, start)
        start += _example([(operator, value)])


def _example(sequence: Any) -> str:
    """A short text that the sequence matches."""
    text = ""
    for operator, value in sequence:
        if operator is names.LITERAL:
            text += chr(value)
        elif operator in (names.ANY, names.NOT_LITERAL, names.IN):
            text += _character(operator, value)
        elif operator in _REPEATS:
            text += _example(value[2]) * value[0]
        elif operator is names.SUBPATTERN:
            text += _example(value[3])
        elif operator is names.BRANCH:
            text += _example(value[1][0])
    return text


def _character(operator: Any, value: Any) -> str:
    test = _test(operator, _key(value), 0)
    return next((one for one in _CHARACTERS if test(one)), None) or next(
        chr(number) for number in range(0x10000) if test(chr(number))
    )
