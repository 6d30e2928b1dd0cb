"""Running a function with a bound on its time and memory, counted by the system for a process of its own."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECONDS, MEGABYTES = 120, 200
"""What an input under a megabyte may cost: seconds of the processor, many times the usual, which only ends what has no
end, and memory."""


def within_limits(
    function: Callable[..., Any], *arguments: Any, seconds: int = SECONDS, megabytes: int = MEGABYTES
) -> None:
    """Call a function in a child, which is killed after so many seconds of computing, and refused more memory."""
    if sys.platform != "linux":
        pytest.skip("only Linux bounds the memory of a process")
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_limited, args=(function, arguments, seconds, megabytes))
    child.start()
    child.join()
    assert child.exitcode == 0, f"exit code {child.exitcode} (-9, -24: too much time; 1: see above)"


def _limited(function: Callable[..., Any], arguments: tuple[Any, ...], seconds: int, megabytes: int) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    try:
        function(*arguments)
    except BaseException:
        traceback.print_exc()
        raise SystemExit(1) from None
