"""The message of a CMake error or warning, whole.

Source: cmMessenger.cxx, which indents what ``message()`` was given by two spaces; the call stack below is not indented.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from torchwheel.diagnosis.model import LogLine

MOST_LINES = 60
"""Lines of a message that are looked at."""

_HEADLINE = re.compile(r"CMake (?:Deprecation )?(?:Error|Warning)\b")
_INDENT = "  "
_AFTER_MESSAGE = 2
"""Empty lines below a message; an empty paragraph in one is an odd number of them."""


def cmake_message(lines: Sequence[LogLine], number: int) -> tuple[LogLine, ...]:
    """The headline and the message that a line is part of, up to the call stack or exactly two empty lines.

    Args:
        lines: lines of a log that follow each other.
        number: of the line in question, which is one of them.

    Returns:
        The lines; none if the line is of no such message.
    """
    texts = [line.text for line in lines]
    at = start = number - lines[0].number
    while (
        start and not _HEADLINE.match(texts[start]) and (not texts[start] or texts[start].startswith(_INDENT))
    ):
        start -= 1
    if not _HEADLINE.match(texts[start]):
        return ()
    end = start + 1
    while following := next((i for i in range(end, len(texts)) if texts[i]), None):
        if following - end == _AFTER_MESSAGE or not texts[following].startswith(_INDENT):
            break
        end = following + 1
    return tuple(lines[start:end]) if at < end else ()
