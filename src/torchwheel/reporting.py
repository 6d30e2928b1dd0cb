"""Reporting an error to the user at the outermost call: text or JSON, and a traceback only on request."""

from __future__ import annotations

import argparse
import errno
import io
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.masking import learn_secrets, mask, mask_document
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.settings.project import read_project
from torchwheel.settings.value_types import truth
from torchwheel.terminal import paint, show, terminal_width, visible, wants_colour

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EXIT_FAILED = 1
STANDARD_OUTPUT = "the standard output"
"""What errors of writing to it have for a file name."""
_HEAD = "torchwheel: "
_ELSEWHERE = "another place (TORCHWHEEL_CACHE_DIR, the output folder)"
_IN_USE = "end the program that has it open, such as a Python that has imported it, "
"""On Windows that is refused in the same words."""
_LONG = 248
"""Characters that a folder's path may not have on Windows, nor that of a file 12 more.

Source: https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation
"""
SCHEMA_VERSION = 1
"""Grows with every incompatible change of any document."""


class _Decisions(logging.Formatter):
    """Lines as :func:`torchwheel.terminal.say` prints them."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_HEAD}{visible(mask(record.getMessage()))}"


def log_decisions(verbosity: int) -> None:
    """Write the reasons for torchwheel's decisions to standard error, if asked to."""
    logger = logging.getLogger("torchwheel")
    logger.handlers.clear()
    if verbosity:
        handler = logging.StreamHandler()
        handler.setFormatter(_Decisions())
        logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbosity else logging.WARNING)


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
    learn_secrets({**os.environ, **(config_settings or {})})
    with suppress(AttributeError, OSError, ValueError):
        # In a hook it may be a pipe, which takes on Windows what the system's code page has.
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with _signals_interrupt():
            yield
    except KeyboardInterrupt as interrupt:
        number = interrupt.number if isinstance(interrupt, _EndedBySignal) else signal.SIGINT
        ended = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        # After SIGHUP there may be no terminal to say it to.
        with suppress(OSError):
            _say(f"{ended}; the build directory is kept, and the next run goes on from there")
        raise SystemExit(128 + number) from None
    except Exception as error:
        if traceback_wanted(config_settings):
            raise
        _say_error(TorchwheelError(problems_of(error)))
        raise SystemExit(EXIT_FAILED) from None


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
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    show(paint(_HEAD.rstrip(), "error", wants_colour(sys.stderr)) + f" {text}", sys.stderr)


def _say_error(error: TorchwheelError) -> None:
    _say(error.render(terminal_width(), _HEAD).removeprefix(_HEAD))


def problems_of(error: Exception) -> tuple[Problem, ...]:
    """What any error stands for: what torchwheel found wrong, what the system refused, or a fault of torchwheel's."""
    if isinstance(error, TorchwheelError):
        return error.problems
    return (system_problem(error) if isinstance(error, OSError) else _own_fault(error),)


def _own_fault(error: Exception) -> Problem:
    place = traceback.extract_tb(error.__traceback__)[-1]
    said = (str(error).strip().splitlines() or [""])[-1]
    return Problem(
        id="internal-error",
        what=f"torchwheel met an error that it does not know: {type(error).__name__}: {said}",
        remedy="run the same with TORCHWHEEL_TRACEBACK=1, and report what that prints",
        why="that is a fault of torchwheel's, or of something that it rests on, and none of yours",
        origin=f"{place.filename}, line {place.lineno}",
    )


def _unreadable(path: Path) -> Path | None:
    """The outermost of a path and the folders that it lies in that may not be read or entered."""
    for one in (*reversed(path.parents), path):
        if os.path.lexists(one) and not os.access(one, os.R_OK if one == path else os.X_OK):
            return one
    return None


def system_problem(error: OSError) -> Problem:
    """The problem that an error of the operating system stands for."""
    path = "" if error.filename is None else os.fsdecode(error.filename)
    if error.filename == STANDARD_OUTPUT:
        return Problem(
            id="output-not-written",
            what=f"the standard output cannot be written: {error.strerror}",
            remedy="send it to a file or a terminal that takes it",
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem(
            id="disk-full",
            what="the disk is full",
            why="a PyTorch build takes 10 to 60 GB beside its source; what was begun is kept and will be continued",
            remedy="make room, or move torchwheel's cache with TORCHWHEEL_CACHE_DIR=/another/disk",
            origin=path,
        )
    if error.errno == errno.ENOENT and not path and not _here():
        return Problem(
            id="no-current-folder",
            what="the folder that this runs in does not exist any more",
            remedy="change into one that exists: cd /path/to/it",
        )
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    if denied and path and (closed := _unreadable(Path(path))):
        return Problem(
            id="not-readable",
            what=f"cannot be read: {error.strerror}",
            remedy="give yourself permission to read it, or leave it out",
            origin=str(closed),
        )
    if denied:
        return Problem(
            id="not-writable",
            what=f"cannot be written: {error.strerror}",
            remedy=f"{_IN_USE if sys.platform == 'win32' else ''}give yourself write permission there, or choose "
            f"{_ELSEWHERE}",
            origin=path,
        )
    if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP):
        return Problem(
            id="unusable-path",
            what=f"this path cannot be used: {error.strerror}",
            remedy=f"remove or rename what is in the way, or choose {_ELSEWHERE}",
            origin=path,
        )
    if error.errno == errno.ENOENT and sys.platform == "win32" and len(path) >= _LONG:
        return Problem(
            id="unusable-path",
            what=f"this path of {len(path)} characters cannot be used: {error.strerror}",
            why="Windows takes 259 characters, of a folder 247, unless LongPathsEnabled is 1",
            remedy="choose a short place, such as TORCHWHEEL_CACHE_DIR=C:\\tw, and a short output folder",
            origin=path,
        )
    if error.errno == errno.ENOENT and path:
        return Problem(
            id="system-error",
            what="the file does not exist (it may have been deleted during the build)",
            remedy="if torchwheel's cache was deleted meanwhile, run again: what is missing is made anew; else see "
            "whether the path is right",
            origin=path,
        )
    return Problem(
        id="system-error",
        what=f"the system refused an operation: {error.strerror or error}",
        remedy="run again with TORCHWHEEL_TRACEBACK=1 to see where, and report it if it is torchwheel's fault",
        origin=path,
    )


def _here() -> bool:
    """Whether the current folder exists."""
    try:
        return bool(Path.cwd())
    except OSError:
        return False


class _StandardOutput(io.FileIO):
    """File descriptor 1, whose errors say that they are its; a terminal that was closed takes everything."""

    terminal = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            if sys.platform == "win32" and error.errno == errno.EINVAL:
                # So Windows says that nobody reads a pipe any more: https://github.com/python/cpython/issues/79935
                raise BrokenPipeError(errno.EPIPE, error.strerror) from error
            error.filename = STANDARD_OUTPUT
            # What is left in the buffer would fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if self.terminal and error.errno == errno.EIO:
                # A build that its shell has disowned goes on without one.
                return memoryview(data).nbytes
            raise


def open_standard_streams() -> None:
    """Make the three standard streams usable: one that is closed leads to nothing, names of all sorts can be printed.

    A file that is opened takes the number of a closed stream, and gets what was meant for that.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    terminal = sys.stdout is not None and sys.stdout.isatty()
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    raw = _StandardOutput(1, "wb", closefd=False)
    raw.terminal = terminal
    if terminal and sys.platform == "win32":
        # A console takes characters; of bytes it makes those of a code page of its own.
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=terminal
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON document instead of text")


def print_document(command: str, *, on_one_line: bool = False, **content: Any) -> None:
    """Print the document of a command, as ``cli/schemas/COMMAND.schema.json`` describes it."""
    document = {"schema": SCHEMA_VERSION, "command": command, **content}
    print_json(document, indent=None if on_one_line else 2)


def print_json(document: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """Print a document without the secrets in it."""
    print(json.dumps(mask_document(document), indent=indent))


class AlreadyPrinted(TorchwheelError):
    """An error of which the document that was printed tells."""


def print_problems(command: str, problems: Iterable[Problem]) -> None:
    """Print the document of a command that failed; ``schemas/problems.schema.json`` describes it."""
    print_document(command, ok=False, problems=[vars(problem) for problem in problems])
