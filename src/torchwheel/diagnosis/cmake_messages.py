"""The messages of CMake in a log, each from its headline to its last line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from torchwheel.diagnosis.model import LogLine

NEEDLES = ("CMake Error", "CMake Warning", "CMake Deprecation ")
LONGEST_MESSAGE = 400
"""Lines below the headline that may be its message: what nvcc -v printed takes hundreds."""
PARAGRAPH_LINES = 12
_HEADLINE = re.compile(r"^(?P<indent> *)CMake (?:Deprecation )?(?P<kind>Error|Warning)\b")
_STATUS = re.compile(r"^ *-- ")
_MOST_BLANK = 6
_INDENT = 2
_MOST_FOREIGN = 2
_MOST_BLANK_BEFORE_FOREIGN = 3
_OTHER_JOB = re.compile(r"(?:Building|Linking|Generating) (?:C|CXX|CUDA|HIP|ASM) ")
_FRAME = re.compile(r'^ +File "[^"]+", line \d')
_CALL_STACK = "Call Stack (most recent call first):"


@dataclass(frozen=True)
class CMakeMessage:
    """What CMake said at once: a headline and what is indented below it.

    Attributes:
        is_error: whether CMake calls it an error.
        lines: the headline and all lines down to the last one of the message.
        foreign: numbers of those between that another job printed.
    """

    is_error: bool
    lines: tuple[LogLine, ...]
    foreign: frozenset[int]

    @property
    def numbers(self) -> tuple[int, int]:
        """Of the first line and the last."""
        return self.lines[0].number, self.lines[-1].number

    def holds(self, number: int) -> bool:
        first, last = self.numbers
        return first <= number <= last and number not in self.foreign

    def paragraph(self, number: int) -> str:
        """The paragraph that a line below the headline is part of, joined: CMake fills to 77 columns."""
        at = number - self.lines[0].number
        above = takewhile(_goes_on, reversed(self.lines[max(1, at - PARAGRAPH_LINES) : at]))
        below = takewhile(_goes_on, self.lines[at : at + PARAGRAPH_LINES])
        own = (line for line in (*reversed(list(above)), *below) if line.number not in self.foreign)
        return " ".join(line.text.strip() for line in own)


def is_status(text: str) -> bool:
    """Whether CMake says it by the way (``message(STATUS)``)."""
    return _STATUS.match(text) is not None


def read_message(headline: LogLine, below: Iterable[LogLine]) -> CMakeMessage | None:
    """The message whose headline a line is; None if it is none.

    Args:
        headline: the line in question.
        below: the lines after it.
    """
    found = _HEADLINE.match(headline.text)
    if found is None:
        return None
    indent, is_error = len(found["indent"]), found["kind"] == "Error"
    lines, foreign = [headline], set()
    pending: list[LogLine] = []
    for line in below:
        text = line.text
        blank = sum(not one.text for one in pending)
        if not text:
            if blank == _MOST_BLANK:
                break
            pending.append(line)
            continue
        if is_status(text) or _HEADLINE.match(text) or text.strip() == _CALL_STACK:
            break
        if not is_error and (_FRAME.match(text) or (len(lines) == 1 and _indent(text) != indent + _INDENT)):
            break
        if _indent(text) <= indent:
            # Parallel jobs mix their lines into a message.
            others = sum(one.number in foreign for one in pending)
            if blank > _MOST_BLANK_BEFORE_FOREIGN or others == _MOST_FOREIGN or not is_error:
                break
            foreign.add(line.number)
            pending.append(line)
            continue
        lines += [*pending, line]
        pending = []
    if len(lines) == 1 and is_error and headline.text.endswith(":"):
        # Who pastes a log may lose its indentation.
        lines += takewhile(lambda line: line.text, pending)
        foreign.clear()
    return CMakeMessage(is_error, tuple(lines), frozenset(foreign))


def _goes_on(line: LogLine) -> bool:
    """Whether a paragraph goes on; a progress display writes over empty lines."""
    return line.text != "" and not _OTHER_JOB.match(line.text)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
