"""The error type for users, findings about a build, and the program's exit on an error."""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, get_close_matches
from enum import Enum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

from torchwheel.reporting.masking import learn_secrets, mask
from torchwheel.reporting.messages import read_messages, read_plain_toml, respell
from torchwheel.reporting.terminal import STANDARD_OUTPUT, paint, show, terminal_width, wants_colour, wrap

EXIT_FAILED = 1
"""The build failed."""
EXIT_REFUSED = 2
"""The request is wrong, or this machine cannot do it; nothing was built."""
EXIT_NOT_PROVED = 3
"""A wheel, or CMake's configuration, is not as planned."""
_HEAD = "torchwheel: "
_FALSE = frozenset({"", "0", "false", "off", "no"})
_LONG = 248
"""A folder's length that Windows refuses, and 12 less than a file's: https://learn.microsoft.com/windows/win32/fileio/maximum-file-path-limitation"""
_CUTOFF = 0.7
"""Similarity below which a suggestion would mislead more than help."""
_SURE = 0.9
_BEGINNING = 4
"""Letters of a beginning from which it is more than chance."""
_COMPARED = 8
_LONGEST = 100
"""Longest name that is compared (comparison is quadratic)."""
_DIGITS = re.compile(r"\d+")
_REPEATED = re.compile(r"(.)\1+")
_NUMBERED = re.compile(r"\d{1,3}\. ")
_NO_BREAK = "\0"
_INDENT = "    "
_BELOW = len("why: ")


@dataclass(frozen=True)
class Problem:
    """One problem with its remedy; secrets in it are masked.

    Attributes:
        remedy: what to type or change; lines after the first are commands to paste, or further numbered remedies.
        why: the rule or fact behind it; empty if ``what`` is enough. Lines after the first are quotations.
    """

    id: str
    what: str
    remedy: str
    why: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        for name in ("what", "remedy", "why", "origin"):
            object.__setattr__(self, name, mask(getattr(self, name)))

    @classmethod
    def of(cls, key: str, /, origin: object = "", **values: object) -> Problem:
        """Return the problem with this ``id`` or ``id/variant``, with the texts of ``messages.toml``."""
        message = read_messages()[key]
        what, why, remedy = message.fill(values)
        return cls(message.id, what, remedy, why, str(origin))

    @property
    def status(self) -> int:
        return read_messages()[self.id].status if self.id in read_messages() else EXIT_FAILED

    def render(self) -> str:
        return "\n".join(self.lines())

    def lines(self, columns: int | None = None, head: str = "") -> Iterator[str]:
        origin = f"{self.origin}: " if self.origin else ""
        said = f"{origin}{self.what}  [{self.id}]"
        # The head must not be alone on its line before a long path.
        joined = head[:-1] + _NO_BREAK if head.endswith(" ") else head
        for line in wrap(joined + said, columns, "", _INDENT):
            yield line.replace(_NO_BREAK, " ")
        below = _INDENT + " " * _BELOW
        for label, text in (("why: ", respell(self.why)), ("fix: ", respell(self.remedy))):
            for number, line in enumerate(text.splitlines()):
                first = _INDENT + label if number == 0 else below
                marker = _NUMBERED.match(line)
                if number and not marker:
                    yield first + line
                else:
                    yield from wrap(line, columns, first, below + " " * (marker.end() if marker else 0))


class TorchwheelError(Exception):
    """An error with one or more problems; ``str()`` of it is the full text that a user sees."""

    def __init__(self, problems: Problem | Iterable[Problem], notes: Iterable[Finding] = ()) -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.notes = tuple(notes)
        if not self.problems:
            raise ValueError("an error needs at least one problem")
        super().__init__(self.render())

    @property
    def status(self) -> int:
        return self.problems[0].status

    def render(self, columns: int | None = None, head: str = "") -> str:
        notes = ["\n".join(("", *note.problem.lines(columns, "note: "))) for note in self.notes]
        return "\n".join([*self._problem_lines(columns, head), *notes])

    def _problem_lines(self, columns: int | None, head: str) -> list[str]:
        if len(self.problems) == 1:
            return list(self.problems[0].lines(columns, head))
        lines = [f"{head}{len(self.problems)} problems:"]
        for number, problem in enumerate(self.problems, 1):
            # Align the other lines of a problem with its text, not its number.
            number_and_first, *rest = problem.lines(columns and columns - 3, f"{number}. ")
            lines += [number_and_first, *(f"   {line}" for line in rest)]
        return lines


def refusal(key: str, /, origin: object = "", **values: object) -> TorchwheelError:
    return TorchwheelError(Problem.of(key, origin, **values))


@contextmanager
def reading(file: object) -> Iterator[None]:
    """Refuse a file that cannot be read in the block."""
    try:
        yield
    except OSError as error:
        # EINVAL is from ``open_file``, for pipes and devices.
        key = "unreadable-file/pipe" if error.errno == errno.EINVAL else "unreadable-file"
        raise refusal(key, origin=file, reason=error.strerror) from None


@contextmanager
def collect_problems(problems: list[Problem]) -> Iterator[None]:
    try:
        yield
    except TorchwheelError as error:
        problems += error.problems


def stop_on(problems: Iterable[Problem]) -> None:
    """Raise all problems at once, without duplicates, if there are any."""
    if found := tuple(dict.fromkeys(problems)):
        raise TorchwheelError(found)


def find_nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to ``name``; None if none is similar.

    Case, underscores and hyphens are ignored. Pass only siblings, because unrelated names with a long common prefix
    all look similar.
    """
    if len(name) > _LONGEST:
        return None
    whole = _fold_name(name)
    folded = {_fold_name(candidate): candidate for candidate in sorted(candidates, reverse=True)}
    wanted = _likeness(whole)

    def differs(text: str) -> list[bool]:
        return [one != other for one, other in zip(_likeness(text), wanted, strict=True)]

    # The sort is stable, so the most alike stay first among equals.
    best = sorted(get_close_matches(whole, folded, n=_COMPARED, cutoff=_CUTOFF), key=differs)
    # A word that only goes on is nearer than one that has other words in it: `architecture` means `arch`.
    words = [text for text in folded if text.isalpha() and len(text) >= _BEGINNING]
    begun = max(filter(whole.startswith, words), key=len, default=None)
    if begun and (not best or SequenceMatcher(None, best[0], whole).ratio() < _SURE):
        return folded[begun]
    return folded[best[0]] if best else None


def _likeness(text: str) -> tuple[str, list[str], list[str]]:
    """A name without repeated characters (``h1000`` is ``h100``), its numbers, and its digits in order.

    People rarely mistype only a number, and if so, they swap two digits.
    """
    numbers = _DIGITS.findall(text)
    return _REPEATED.sub(r"\1", text), numbers, sorted("".join(numbers))


def _fold_name(name: str) -> str:
    return name.casefold().replace("_", "-")


class Severity(Enum):
    ERROR = "error"
    """The build would fail, or its result would not be what its name says."""
    WARNING = "warning"
    """The build works, but perhaps not as the user expects."""
    NOTE = "note"
    """A decision made for the user."""

    @property
    def rank(self) -> int:
        return tuple(Severity).index(self)


@dataclass(frozen=True)
class Finding:
    """One graded statement about a planned build; ``problem`` holds its text and remedy."""

    severity: Severity
    problem: Problem

    @property
    def id(self) -> str:
        return self.problem.id

    def head(self, skipped: Collection[str] = ()) -> str:
        by = " (skipped by skip-check)" if skipped_errors([self], skipped) else ""
        return f"{self.severity.value}{by}: "

    def render(self, skipped: Collection[str] = ()) -> str:
        return f"{self.head(skipped)}{self.problem.render()}"

    def lines(self, columns: int, head: str = "", *, colour: bool = False) -> Iterator[str]:
        head = head or self.head()
        first, *rest = self.problem.lines(columns, head)
        # On a very narrow terminal the line breaks within the head.
        coloured = paint(head, self.severity.value, colour) + first[len(head) :]
        yield coloured if first.startswith(head) else first
        yield from rest

    def briefly(self) -> Finding:
        return replace(self, problem=replace(self.problem, why="", remedy=""))

    def document(self) -> dict[str, str]:
        return {"severity": self.severity.value, **vars(self.problem)}


error = partial(Finding, Severity.ERROR)
warning = partial(Finding, Severity.WARNING)
note = partial(Finding, Severity.NOTE)


def announce(findings: Iterable[Finding], skipped: Collection[str]) -> None:
    for finding in findings:
        if finding.severity is not Severity.NOTE:
            head = f"torchwheel: {finding.head(skipped)}"
            show("\n".join(finding.lines(terminal_width(), head, colour=wants_colour())), sys.stdout)


def skipped_errors(findings: Iterable[Finding], skipped: Collection[str]) -> list[str]:
    return sorted({f.id for f in findings if f.severity is Severity.ERROR}.intersection(skipped))


def stopping_errors(findings: Iterable[Finding], skipped: Collection[str] = ()) -> tuple[Finding, ...]:
    """The errors that stop a build: those whose id is not in ``skipped``."""
    return tuple(f for f in findings if f.severity is Severity.ERROR and f.id not in skipped)


def stop_on_errors(findings: Iterable[Finding], skipped: Collection[str] = ()) -> None:
    stop_on(f.problem for f in stopping_errors(findings, skipped))


class AlreadyPrinted(TorchwheelError):
    """An error that is already in the printed document."""


def traceback_wanted(config_settings: Mapping[str, object] | None) -> bool:
    """Whether ``-C traceback=true``, ``TORCHWHEEL_TRACEBACK=1`` or the project here wants a traceback.

    Read without the settings model, because reading the settings may be what fails.
    """
    wanted: object = (config_settings or {}).get("traceback", os.environ.get("TORCHWHEEL_TRACEBACK"))
    if wanted is None:
        with suppress(OSError, ValueError, LookupError, TypeError):
            wanted = read_plain_toml(Path("pyproject.toml"))["tool"]["torchwheel"]["traceback"]
    return str(wanted or "").strip().lower() not in _FALSE


@contextmanager
def report_errors(config_settings: Mapping[str, object] | None = None) -> Iterator[None]:
    """Print an error in the block and exit with its status, or with 128 and its number after a signal (Ctrl-C: 130)."""
    learn_secrets({**os.environ, **(config_settings or {})})
    with suppress(AttributeError, OSError, ValueError):
        # In a hook it may be a pipe, which on Windows supports only the system's code page.
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        with _signals_interrupt():
            yield
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        ended = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        # After SIGHUP there may be no terminal.
        with suppress(OSError):
            _print_error(f"{ended}; the build directory is kept, and the next run goes on from there")
        raise SystemExit(128 + number) from None
    except Exception as error:
        if traceback_wanted(config_settings):
            raise
        failed = error if isinstance(error, TorchwheelError) else TorchwheelError(problems_of(error))
        _print_error(failed.render(terminal_width(), _HEAD).removeprefix(_HEAD))
        raise SystemExit(failed.status) from None


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    # Child processes run in separate sessions, so SIGTERM and SIGHUP must end the block like Ctrl-C.
    # Python lets only the main thread handle signals.
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt(number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    # Keep nohup's request to survive the terminal.
    before = {n: signal.signal(n, end) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_error(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    show(paint(_HEAD.rstrip(), "error", wants_colour(sys.stderr)) + f" {text}", sys.stderr)


def problems_of(error: Exception) -> tuple[Problem, ...]:
    """Convert any error to problems: torchwheel's own, the system's, or a bug of torchwheel."""
    if isinstance(error, TorchwheelError):
        return error.problems
    if isinstance(error, OSError):
        return (system_problem(error),)
    place = traceback.extract_tb(error.__traceback__)[-1]
    said = (str(error).strip().splitlines() or [""])[-1]
    origin = f"{place.filename}, line {place.lineno}"
    return (Problem.of("internal-error", origin=origin, kind=type(error).__name__, text=said),)


def _unreadable_part(path: Path) -> Path | None:
    for one in (*reversed(path.parents), path):
        if os.path.lexists(one) and not os.access(one, os.R_OK if one == path else os.X_OK):
            return one
    return None


def _variable_that_names(closed: Path, path: Path) -> str:
    """The environment variable, in words, that names most of a path with a closed folder; empty if none does."""
    # Not HOME: nothing is looked for in one that is closed.
    named = [
        (one in (path, *path.parents), len(one.parts), name)
        for name, value in sorted(os.environ.items(), reverse=True)
        for one in map(Path, value.split(os.pathsep))
        if name != "HOME" and closed in (one, *one.parents)
    ]
    return f"variable {max(named)[2]}" if named else ""


def system_problem(error: OSError) -> Problem:
    path = "" if error.filename is None else os.fsdecode(error.filename)
    if error.filename == STANDARD_OUTPUT:
        return Problem.of("output-not-written", reason=error.strerror)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem.of("disk-full", origin=path)
    if error.errno == errno.ENOENT and not path and not _has_current_folder():
        return Problem.of("no-current-folder")
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    if denied and path and (closed := _unreadable_part(Path(path))):
        if variable := _variable_that_names(closed, Path(path)):
            return Problem.of("not-readable/named", origin=variable, path=closed, reason=error.strerror)
        return Problem.of("not-readable", origin=closed, reason=error.strerror)
    if denied:
        key = "not-writable/windows" if sys.platform == "win32" else "not-writable"
        return Problem.of(key, origin=path, reason=error.strerror)
    if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP):
        return Problem.of("unusable-path", origin=path, reason=error.strerror)
    if error.errno == errno.ENOENT and sys.platform == "win32" and len(path) >= _LONG:
        return Problem.of("unusable-path/too-long", origin=path, length=len(path), reason=error.strerror)
    if error.errno == errno.ENOENT and path:
        return Problem.of("system-error/missing", origin=path)
    return Problem.of("system-error", origin=path, reason=error.strerror or error)


def _has_current_folder() -> bool:
    with suppress(OSError):
        return bool(Path.cwd())
    return False
