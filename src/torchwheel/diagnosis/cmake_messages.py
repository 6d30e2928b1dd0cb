"""The messages of CMake in a log, each from its headline to its last line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, takewhile

from torchwheel.diagnosis.failures import LogLine

NEEDLES = ("CMake Error", "CMake Warning", "CMake Deprecation ")
LONGEST_MESSAGE = 400
"""Maximum lines of a message: quoted output of nvcc -v has hundreds."""
PARAGRAPH_LINES = 12
_HEADLINE = re.compile(r"^(?P<indent> *)CMake (?:Deprecation )?(?P<kind>Error|Warning)\b")
_STATUS = re.compile(r"^ *-- ")
_MOST_BLANK = 6
_INDENT = 2
_MOST_FOREIGN = 2
_MOST_BLANK_BEFORE_FOREIGN = 3
_OTHER_JOB = re.compile(r"(?:Building|Linking|Generating) (?:C|CXX|CUDA|HIP|ASM) ")
# Of a traceback, or what pip passes on of a build in its environment.
_FRAME = re.compile(r'^ +File "[^"]+", line \d|^ {4,}ERROR: ')
_CALL_STACK = "Call Stack (most recent call first):"


@dataclass(frozen=True)
class CMakeMessage:
    """One CMake message: a headline and the indented lines below it, without those of other jobs in between."""

    is_error: bool
    lines: tuple[LogLine, ...]

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the first and the last line."""
        return self.lines[0].number, self.lines[-1].number

    def contains(self, number: int) -> bool:
        first, last = self.numbers
        return first <= number <= last and any(one.number == number and one.text for one in self.lines)

    @property
    def paragraphs(self) -> Iterator[tuple[LogLine, ...]]:
        """The lines of each paragraph below the headline."""
        return (tuple(own) for filled, own in groupby(self.lines[1:], key=_is_filled) if filled)

    def paragraph_at(self, number: int) -> str:
        """Join the paragraph of a line below the headline, because CMake wraps at 77 columns."""
        holding = (own for own in self.paragraphs if any(line.number == number for line in own))
        near = (line for line in next(holding, ()) if abs(line.number - number) <= PARAGRAPH_LINES)
        return " ".join(line.text.strip() for line in near)


def is_status(text: str) -> bool:
    return _STATUS.match(text) is not None


def read_message(headline: LogLine, below: Iterable[LogLine]) -> CMakeMessage | None:
    """Read the message that starts at a line; None if none does."""
    found = _HEADLINE.match(headline.text)
    if found is None:
        return None
    indent, is_error = len(found["indent"]), found["kind"] == "Error"
    lines = [headline]
    pending: list[LogLine] = []
    for line in below:
        text, deeper = line.text, count_indentation(line.text) - indent
        blank = sum(not one.text for one in pending)
        if is_status(text) or _HEADLINE.match(text) or text.strip() == _CALL_STACK:
            break
        if text and not is_error and (_FRAME.match(text) or (len(lines) == 1 and deeper != _INDENT)):
            break
        if text and deeper > 0:
            # Parallel jobs may print lines within a message; a progress display overwrites empty lines.
            empty = (one for one in pending if not one.text or _OTHER_JOB.match(one.text))
            lines += [*(replace(one, text="") for one in empty), line]
            pending = []
            continue
        others = len(pending) - blank
        has_room = is_error and blank <= _MOST_BLANK_BEFORE_FOREIGN and others < _MOST_FOREIGN
        if not has_room if text else blank == _MOST_BLANK:
            break
        pending.append(line)
    if len(lines) == 1 and is_error and headline.text.endswith(":"):
        # A pasted log may have lost its indentation.
        lines += takewhile(_is_filled, pending)
    return CMakeMessage(is_error, tuple(lines))


def _is_filled(line: LogLine) -> bool:
    return line.text != ""


def count_indentation(text: str) -> int:
    return len(text) - len(text.lstrip())
