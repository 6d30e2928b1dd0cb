"""Reporting an error to the user at the outermost call: the text, and a traceback only on request."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.settings.project import read_project
from torchwheel.settings.values import truth

EXIT_FAILED = 1


def traceback_wanted(config_settings: ConfigSettings | None) -> bool:
    """Whether ``-C traceback=true``, ``TORCHWHEEL_TRACEBACK=1`` or the project here wants a traceback.

    Read here without the settings model, because reading the settings may be what fails.
    """
    wanted: object = (config_settings or {}).get("traceback", os.environ.get("TORCHWHEEL_TRACEBACK"))
    if wanted is None:
        wanted = _of_project()
    return truth(wanted) is not False


def _of_project() -> object:
    """``traceback`` under ``[tool.torchwheel]`` of the pyproject.toml in the current folder."""
    try:
        return read_project(Path.cwd()).table("tool", "torchwheel").get("traceback", False)
    except (TorchwheelError, OSError):
        return False


@contextmanager
def report_errors(config_settings: ConfigSettings | None = None) -> Iterator[None]:
    """Print what stops torchwheel and exit.

    Raises:
        SystemExit: status 1 after an error, 128 and its number after a signal (130 after Ctrl-C); nothing is raised
            otherwise.
    """
    try:
        with _signals_interrupt():
            yield
    except (TorchwheelError, OSError) as error:
        if traceback_wanted(config_settings):
            raise
        _say(error.render() if isinstance(error, TorchwheelError) else system_problem(error).render())
        raise SystemExit(EXIT_FAILED) from None
    except KeyboardInterrupt as interrupt:
        number = interrupt.number if isinstance(interrupt, _EndedBySignal) else signal.SIGINT
        ended = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        # After SIGHUP there may be no terminal to say it to.
        with suppress(OSError):
            _say(f"{ended}; the build directory is kept, and the next run goes on from there")
        raise SystemExit(128 + number) from None


class _EndedBySignal(KeyboardInterrupt):
    """What Ctrl-C raises, for another signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does: what it started runs in sessions of its own."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise _EndedBySignal(number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    # nohup's request to survive the terminal is kept.
    before = {n: signal.signal(n, end) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    sys.stdout.flush()
    print(f"torchwheel: {text}", file=sys.stderr, flush=True)


def system_problem(error: OSError) -> Problem:
    """The problem that an error of the operating system stands for."""
    origin = str(error.filename or "")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(
            id="disk-full",
            what="the disk is full",
            why="a PyTorch build takes 10 to 60 GB beside its source; what was begun is kept and will be continued",
            remedy="make room, or move torchwheel's cache with TORCHWHEEL_CACHE_DIR=/another/disk",
            origin=origin,
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Problem(
            id="not-writable",
            what=f"cannot be written: {error.strerror}",
            remedy="give yourself write permission there, or choose another place (TORCHWHEEL_CACHE_DIR, the "
            "output folder)",
            origin=origin,
        )
    return Problem(
        id="system-error",
        what=f"the system refused an operation: {error.strerror or error}",
        remedy="run again with TORCHWHEEL_TRACEBACK=1 to see where, and report it if it is torchwheel's fault",
        origin=origin,
    )
