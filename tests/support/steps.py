"""How much Python does: the lines that it runs, which are the same on every machine, unlike seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_lines(function: Callable[..., object], *arguments: Any) -> int:
    """The lines of Python that a call runs, in this thread; loops inside of C functions count as one."""
    lines = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return lines


def is_linear(function: Callable[[int], object], size: int) -> bool:
    """Whether a call for four times the size runs at most five times the lines, beside a constant."""
    function(size // 2)  # What is read once, at the first call, counts in neither.
    return count_lines(function, 4 * size) <= 5 * count_lines(function, size) + 1000
