"""Text for a terminal: width, colours, wrapped paragraphs, tables and lists of facts.

The layout consists of plain strings, for tests; words are never broken, because names, paths and commands are copied.
"""

from __future__ import annotations

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TextIO

from torchwheel.reporting.masking import mask, mask_document, mask_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CODES = {"error": "1;31", "warning": "1;33", "note": "1;36", "ok": "32", "heading": "1"}

_PAINTED = frozenset({"\x1b[0m", *(f"\x1b[{code}m" for code in _CODES.values())})

_UNSEEN = re.compile(
    r"\x1b\[[\d;]{0,8}m|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udfff]"
)

_GAP = 2
_NARROWEST_CELL = 24
"""Minimum width of a table's last column; below that it is printed under the others."""
_INDENT = 4
_USUAL_COLUMNS = 80
_UNITS = ("B", "kB", "MB", "GB")
_ROUGH = ((6 * 3600, 3600), (3600, 600), (600, 300), (60, 60), (0, 10))
"""Pairs of seconds: an estimate of at least the first is rounded to a multiple of the second."""

STANDARD_OUTPUT = "the standard output"
"""The file name in errors of writing to it."""
_HEAD = "torchwheel: "
SCHEMA_VERSION = 1
"""Incremented with every incompatible change of any document."""

QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)
"""Whether commands' output goes only to their log."""


def terminal_width() -> int:
    """Columns of the terminal; 80 for other output or an unknown width. ``COLUMNS`` takes precedence."""
    # A new pseudo-terminal reports 0, which Python 3.10 returns.
    return shutil.get_terminal_size().columns or _USUAL_COLUMNS


def wants_colour(stream: TextIO | None = None, environment: Mapping[str, str] | None = None) -> bool:
    """Whether to colour output to ``stream``, by default standard output: see https://no-color.org."""
    variables = os.environ if environment is None else environment
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR"):
        return True
    chosen = stream or sys.stdout
    # The consoles of older Windows print the sequences; its Terminal names itself.
    obeys = sys.platform != "win32" or "WT_SESSION" in variables
    return chosen.isatty() and variables.get("TERM") != "dumb" and obeys


def escape_controls(text: str) -> str:
    """Escape characters that a terminal would obey or hide, in Python's form (``\\x1b``), except paint's colours."""
    return _UNSEEN.sub(lambda match: match[0] if match[0] in _PAINTED else ascii(match[0])[1:-1], text)


def show(text: str, stream: TextIO | None = None) -> None:
    """Print text for people: the only way for text from files to the terminal, with secrets masked."""
    print(escape_controls(mask(text)), file=stream, flush=stream is not None)


def forward(line: bytes) -> None:
    """Write to the user's screen; a closed or narrow-encoded screen must not end a long build."""
    if QUIET.get():
        return
    line = mask_line(line)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(line.decode("utf-8", "replace"))
        else:
            stream.write(line)
            stream.flush()


def say(text: str) -> None:
    """Print torchwheel's progress immediately, because a build's own output follows."""
    print(f"{_HEAD}{escape_controls(mask(text))}", flush=True)


def paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour else text


def shell_word(word: str, *, windows: bool = os.name == "nt") -> str:
    """Quote a word for the shell of this system: cmd.exe and PowerShell both accept double quotes."""
    if not windows:
        return shlex.quote(word)
    return word if re.fullmatch(r"[\w.+:\\/=@-]+", word) else f'"{word}"'


def config_option(key: str, value: str) -> str:
    """Format a setting for the command line: ``-C jobs=4``, ``-C 'arch=8.0;9.0'``."""
    return f"-C {shell_word(f'{key}={value}')}"


def wrap(text: str, width: int | None, first: str = "", later: str | None = None) -> list[str]:
    """Wrap a text to a width; None leaves it whole."""
    if width is None:
        return [first + text]
    return textwrap.wrap(
        text,
        # textwrap refuses a width of 0.
        max(width, 1),
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def wrap_paragraph(text: str, width: int | None = None) -> str:
    return "\n".join(wrap(text, terminal_width() if width is None else width))


def format_table(headers: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """Format a table whose last column is wrapped to ``width`` or the terminal's; the others fit their widest cell."""
    width = terminal_width() if width is None else width
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


def format_facts(
    rows: Iterable[tuple[str, str]], width: int | None = None, whole: Collection[str] = ()
) -> str:
    """Format names and values in two columns without a header; rows without a value are left out.

    Args:
        whole: the names of rows that are not wrapped, because a path broken at a space cannot be copied.
    """
    width = terminal_width() if width is None else width
    known = [row for row in rows if row[1]]
    size = max((len(name) for name, _ in known), default=0) + _GAP
    lines: list[str] = []
    for name, value in known:
        columns = max(width - size, _NARROWEST_CELL)
        first, *rest = [value] if name in whole else wrap(value, columns)
        lines += [name.ljust(size) + first, *(" " * size + line for line in rest)]
    return "\n".join(lines)


def count_noun(number: int, noun: str) -> str:
    """``1 submodule``, ``2 submodules``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def join_items(items: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def format_duration(seconds: float, *, coarse: bool = False) -> str:
    """Format a duration: ``2 h 5 min``, ``3 min 20 s``, ``7 s``; ``coarse`` in whole minutes from one on."""
    # It is negative after a clock was set back.
    seconds = max(0.0, seconds)
    minutes, rest = divmod(round(seconds / 60) * 60 if coarse and seconds >= 60 else round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if minutes:
        return f"{minutes} min" if coarse else f"{minutes} min {rest} s"
    return f"{rest} s"


def format_estimate(seconds: float) -> str:
    """Format a duration with the precision of an estimate: ``7 h``, ``25 min``, ``40 s``."""
    step = next(step for least, step in _ROUGH if seconds >= least)
    return format_duration(round(seconds / step) * step or step, coarse=True).removesuffix(" 0 min")


def file_size(count: int) -> str:
    """Format bytes in decimal units, ``356 MB`` or ``1.2 GB``, like file managers."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"


def format_gib(amount: int) -> str:
    return f"{amount / 2**30:.1f} GiB"


class _Decisions(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_HEAD}{escape_controls(mask(record.getMessage()))}"


def log_decisions(verbosity: int) -> None:
    """Write the reasons for torchwheel's decisions to standard error, if requested."""
    logger = logging.getLogger("torchwheel")
    logger.handlers.clear()
    if verbosity:
        handler = logging.StreamHandler()
        handler.setFormatter(_Decisions())
        logger.addHandler(handler)
    logger.setLevel(logging.INFO if verbosity else logging.WARNING)


# setuptools would show those of a logger without a level.
log_decisions(0)


class _StandardOutput(io.FileIO):
    """File descriptor 1, with its name in errors; output to a closed terminal is dropped."""

    terminal = False

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            if sys.platform == "win32" and error.errno == errno.EINVAL:
                # Windows reports a closed pipe this way: https://github.com/python/cpython/issues/79935
                raise BrokenPipeError(errno.EPIPE, error.strerror) from error
            error.filename = STANDARD_OUTPUT
            # The rest of the buffer would fail again when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if self.terminal and error.errno == errno.EIO:
                # A build disowned by its shell continues without a terminal.
                return memoryview(data).nbytes
            raise


def open_standard_streams() -> None:
    """Make the three standard streams usable: closed ones lead to the null device, and any name can be printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Otherwise the next opened file would get this number, and what is printed.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")  # noqa: SIM115
    terminal = sys.stdout is not None and sys.stdout.isatty()
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    raw = _StandardOutput(1, "wb", closefd=False)
    raw.terminal = terminal
    if terminal and sys.platform == "win32":
        # A console takes characters; it would decode bytes with its own code page.
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=terminal
    )


@dataclass(frozen=True)
class Answer:
    """What a command found: ``--json`` prints the document, otherwise the text is made, and printed if not empty."""

    document: Mapping[str, Any]
    text: Callable[[], str]
    status: int = 0


def print_document(command: str, *, on_one_line: bool = False, **content: Any) -> None:
    """Print the document of a command, see ``cli/schemas/COMMAND.schema.json``."""
    document = {"schema": SCHEMA_VERSION, "command": command, **content}
    print_json(document, indent=None if on_one_line else 2)


def print_json(document: Mapping[str, Any], *, indent: int | None = 2) -> None:
    print(json.dumps(mask_document(document), indent=indent))


def fields_of(one: object, *names: str) -> dict[str, Any]:
    """Return attributes of an object as JSON data."""
    return {name: _to_data(getattr(one, name)) for name in names}


def _to_data(value: Any) -> Any:
    if hasattr(value, "document"):
        return value.document()
    if isinstance(value, (list, tuple, frozenset)):
        return [_to_data(item) for item in (sorted(value) if isinstance(value, frozenset) else value)]
    if isinstance(value, Enum):
        return value.value
    return value if value is None or isinstance(value, (str, int, float, Mapping)) else str(value)
