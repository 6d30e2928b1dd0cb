"""What a regular expression costs on a line made against it.

Every unbounded repetition of a pattern is pumped: what leads up to it once and what it repeats many times, or both many
times, so that the search begins anew at each. The time of a linear search grows with the line, that of others faster.
regexploit, which reads patterns instead of running them, sees cubic time and worse in shapes that pumping may miss.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

try:
    from re import _constants as names
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as names  # type: ignore[no-redef]
    import sre_parse as parser  # type: ignore[no-redef]

SHORT, LONG = 2_000, 8_000
UNBOUNDED = 50
"""A repetition that may be longer than this is pumped."""
CHEAP = 0.003
"""Seconds of this process for a long line; what takes less is not compared."""
GROWTH = 9
"""Times that a line four times as long may cost; linear is 4, quadratic 16."""
_REPEATS = [
    getattr(names, name) for name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") if hasattr(names, name)
]
_CHARACTERS = "a1 -/.:'_(\"@\x01\u1234"


def lines_against(pattern: str, flags: int = 0) -> set[tuple[str, str]]:
    """What to begin a line with, and what to repeat in it."""
    found = set(_pumps(parser.parse(pattern, flags), ""))
    if flags & re.MULTILINE:
        # What begins at each line may take the ends of all lines after it.
        found |= {(start.replace(" ", "\n"), repeated.replace(" ", "\n")) for start, repeated in found}
    return found


def cost(regex: re.Pattern[Any], start: str, repeated: str, length: int, attempts: int = 1) -> float:
    """Seconds of the process that the search in such a line takes; the least of some attempts."""
    line: Any = (start + repeated * (length // len(repeated)))[: length - 1] + "\x02"
    if isinstance(regex.pattern, bytes):
        line = line.encode("latin-1", "replace")
    taken = []
    for _ in range(attempts):
        began = time.process_time()
        regex.search(line)
        taken.append(time.process_time() - began)
    return min(taken)


def superlinear(regex: re.Pattern[Any]) -> tuple[str, str] | None:
    """The line whose search takes more than linear time; None if there is none."""
    text = regex.pattern.decode("latin-1") if isinstance(regex.pattern, bytes) else regex.pattern
    flags = regex.flags & ~(re.UNICODE if isinstance(regex.pattern, bytes) else 0)
    for start, repeated in sorted(lines_against(text, flags)):
        # On longer lines, exponential time would not end.
        lengths = (22 * len(repeated), SHORT // 10, SHORT)
        if any(cost(regex, start, repeated, length) > 10 * CHEAP for length in lengths):
            return start, repeated
        if cost(regex, start, repeated, LONG) > CHEAP:
            short, long = (cost(regex, start, repeated, length, 3) for length in (SHORT, LONG))
            if long > max(CHEAP, GROWTH * short):
                return start, repeated
    return None


def _pumps(sequence: Any, start: str) -> Iterator[tuple[str, str]]:
    for operator, value in sequence:
        if operator in _REPEATS:
            _, most, body = value
            repeated = _example(body)
            if most >= UNBOUNDED and repeated:
                yield start, repeated
                yield "", start + repeated
            yield from _pumps(body, start)
        elif operator is names.SUBPATTERN:
            yield from _pumps(value[3], start)
        elif operator is names.BRANCH:
            for branch in value[1]:
                yield from _pumps(branch, start)
        start += _example([(operator, value)])
        if start:
            yield "", start


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
    state = parser.State()
    pattern = parser.SubPattern(state, [(operator, value)])
    compiled: Any = re._compiler.compile if hasattr(re, "_compiler") else __import__("sre_compile").compile
    regex = compiled(pattern)
    return next((one for one in _CHARACTERS if regex.match(one)), None) or next(
        chr(number) for number in range(0x10000) if regex.match(chr(number))
    )
