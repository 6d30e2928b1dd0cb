"""Text for a terminal: its width, colours if it has them, wrapped paragraphs, tables and lists of facts.

Layout is a matter of plain strings, so that it can be tested; no word is broken, since names, paths and commands
are there to be copied.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import io
import json
import logging
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

from torchwheel.masking import mask, mask_document, mask_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36", "ok": "32", "heading": "1"}

_PAINTED = frozenset({"\x1b[0m", *(f"\x1b[{code}m" for code in _CODES.values())})

_UNSEEN = re.compile(
    r"\x1b\[[\d;]{0,8}m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udfff]"
)

_VIRTUAL_TERMINAL = 4
"""ENABLE_VIRTUAL_TERMINAL_PROCESSING. Source: https://learn.microsoft.com/windows/console/setconsolemode"""
_HANDLES = -10
"""GetStdHandle numbers from here on downwards what programs number from 0 on upwards."""

_GAP = 2
"""Columns between two cells."""

_NARROWEST_CELL = 24
"""Where the last column of a table would have less room than this, it goes below the others."""

_INDENT = 4
_USUAL_COLUMNS = 80
_UNITS = ("B", "kB", "MB", "GB")
_ROUGH = ((6 * 3600, 3600), (3600, 600), (600, 300), (60, 60), (0, 10))
"""Pairs of seconds: an estimate of at least the first is rounded to a multiple of the second."""

STANDARD_OUTPUT = "the standard output"
"""What errors of writing to it have for a file name."""
_HEAD = "torchwheel: "
SCHEMA_VERSION = 1
"""Grows with every incompatible change of any document."""

QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)
"""Whether what commands print goes to their log alone."""
_SILENT: ContextVar[bool] = ContextVar("_SILENT", default=False)


def terminal_width() -> int:
    """Columns of the terminal; 80 where the output is no terminal, or one that states none. ``COLUMNS`` beats both."""
    # A new pseudo-terminal states 0, which Python 3.10 passes on.
    return shutil.get_terminal_size().columns or _USUAL_COLUMNS


def wants_colour(stream: TextIO | None = None, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to colour what goes to ``stream``, by default standard output.

    ``NO_COLOR`` forbids it (https://no-color.org), ``FORCE_COLOR`` asks for it; else terminals get colours.
    """
    variables = os.environ if environment is None else environment
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR"):
        return True
    chosen = stream or sys.stdout
    return chosen.isatty() and variables.get("TERM") != "dumb" and _supports_escapes(chosen)


def _supports_escapes(terminal: TextIO) -> bool:
    """Whether a terminal obeys escape sequences: a console of Windows does once it was asked to."""
    if sys.platform != "win32":
        return True
    kernel, mode = ctypes.WinDLL("kernel32"), ctypes.c_ulong()
    kernel.GetStdHandle.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(kernel.GetStdHandle(_HANDLES - terminal.fileno()))
    known = kernel.GetConsoleMode(handle, ctypes.byref(mode))
    return bool(known and kernel.SetConsoleMode(handle, mode.value | _VIRTUAL_TERMINAL))


def escape_controls(text: str) -> str:
    """Text without what a terminal would obey or hide, written as Python does (``\\x1b``); paint's colours stay.

    Names and messages of files may hold escape sequences, C1 controls and marks that turn the direction of writing.
    """

    def replace_control(match: re.Match[str]) -> str:
        return match[0] if match[0] in _PAINTED else match[0].encode("unicode_escape").decode("ascii")

    return _UNSEEN.sub(replace_control, text)


@contextmanager
def silent() -> Iterator[None]:
    """A block in which nothing is printed, as in a program that has an output of its own."""
    quiet, said = QUIET.set(True), _SILENT.set(True)
    try:
        yield
    finally:
        QUIET.reset(quiet)
        _SILENT.reset(said)


def show(text: str, stream: TextIO | None = None) -> None:
    """Print text for people: the one place where what came from files reaches the terminal, without secrets."""
    if _SILENT.get():
        return
    print(escape_controls(mask(text)), file=stream, flush=stream is not None)


def forward(line: bytes) -> None:
    """Write to the user's screen; a closed or narrow-encoded screen must not end a long build."""
    if QUIET.get():
        return
    line = mask_line(line)
    try:
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(line.decode("utf-8", "replace"))
        else:
            stream.write(line)
            stream.flush()
    except (OSError, ValueError):
        return


def say(text: str) -> None:
    """Print what torchwheel does meanwhile, at once: a build's own output comes between."""
    if _SILENT.get():
        return
    print(f"{_HEAD}{escape_controls(mask(text))}", flush=True)


def paint(text: str, style: str, colour: bool) -> str:
    """Text in the colour of ``error``, ``warning``, ``note``, ``ok`` or ``heading``."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour else text


def shell_word(word: str, *, windows: bool = os.name == "nt") -> str:
    """A word as one types it in the shell of this system: cmd.exe and PowerShell know double quotes alike."""
    if not windows:
        return shlex.quote(word)
    return word if re.fullmatch(r"[\w.+:\\/=@-]+", word) else f'"{word}"'


def config_option(key: str, value: str) -> str:
    """A setting as it is typed behind a command: ``-C jobs=4``, ``-C 'arch=8.0;9.0'``."""
    return f"-C {shell_word(f'{key}={value}')}"


def wrap(text: str, width: int, first: str = "", later: str | None = None) -> list[str]:
    """Text as lines of at most ``width`` columns.

    Args:
        width: columns; a longer word stays whole, and of less than one column it is one word a line.
        first: what the first line is indented by.
        later: what the other lines are indented by; as the first if None.
    """
    return textwrap.wrap(
        text,
        max(width, 1),
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def paragraph(text: str, width: int) -> str:
    """The lines of ``wrap`` as one text."""
    return "\n".join(wrap(text, width))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """A table whose last column is wrapped to ``width``; the others are as wide as their widest cell.

    The header is coloured where standard output takes colours.
    """
    cells = [tuple(headers), *map(tuple, rows)]
    widths = [max(map(len, column)) + _GAP for column in zip(*(row[:-1] for row in cells), strict=True)]
    indent = sum(widths)
    below = width - indent < _NARROWEST_CELL
    lines: list[str] = []
    for number, (*leading, last) in enumerate(cells):
        head = "".join(cell.ljust(size) for cell, size in zip(leading, widths, strict=True))
        if below:
            row = [head.rstrip(), *wrap(last, width, " " * _INDENT)]
        else:
            first, *rest = wrap(last, width - indent) or [""]
            row = [(head + first).rstrip(), *(" " * indent + line for line in rest)]
        lines += [paint(line, "heading", wants_colour()) for line in row] if number == 0 else row
    return "\n".join(lines)


def facts(rows: Iterable[tuple[str, str]], width: int, whole: Collection[str] = ()) -> str:
    """Names and values, two columns without a header; rows without a value are left out.

    Args:
        whole: the names of rows that are not wrapped: a path that is broken at a space cannot be copied.
    """
    known = [row for row in rows if row[1]]
    size = max((len(name) for name, _ in known), default=0) + _GAP
    lines: list[str] = []
    for name, value in known:
        columns = max(width - size, _NARROWEST_CELL)
        first, *rest = [value] if name in whole else wrap(value, columns)
        lines += [name.ljust(size) + first, *(" " * size + line for line in rest)]
    return "\n".join(lines)


def counted(number: int, noun: str) -> str:
    """``1 submodule``, ``2 submodules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(items: Sequence[str], most: int = 5) -> str:
    """Items with commas; of more than ``most`` only the first ones and how many more there are."""
    replace_control = ", ".join(items[:most])
    return replace_control if len(items) <= most else f"{replace_control} and {len(items) - most} more"


def duration(seconds: float, *, coarse: bool = False) -> str:
    """``2 h 5 min``, ``3 min 20 s``, ``7 s``; coarse in whole minutes where it is at least one.

    A clock that was put back makes it 0.
    """
    seconds = max(0.0, seconds)
    minutes, rest = divmod(round(seconds / 60) * 60 if coarse and seconds >= 60 else round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min" if coarse else f"{minutes} min {rest} s"
    return f"{rest} s"


def rough(seconds: float) -> str:
    """The duration with no more digits than an estimate has: ``7 h``, ``25 min``, ``40 s``."""
    step = next(step for least, step in _ROUGH if seconds >= least)
    return duration(round(seconds / step) * step or step, coarse=True).removesuffix(" 0 min")


def file_size(count: int) -> str:
    """Bytes in decimal units, ``356 MB`` or ``1.2 GB``, as file managers show them."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def gib(amount: int) -> str:
    """Bytes as ``31.8 GiB``, as memory is counted."""
    return f"{amount / 2**30:.1f} GiB"


def mib(amount: int) -> str:
    """Bytes as ``27 MiB``."""
    return f"{amount / 2**20:.0f} MiB"


class _Decisions(logging.Formatter):
    """Lines as :func:`say` prints them."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_HEAD}{escape_controls(mask(record.getMessage()))}"


def log_decisions(verbosity: int) -> None:
    """Write the reasons for torchwheel's decisions to standard error, if asked to."""
    logger = logging.getLogger("torchwheel")
    logger.handlers.clear()
    if verbosity:
        handler = logging.StreamHandler()
        handler.setFormatter(_Decisions())
        logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbosity else logging.WARNING)


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
