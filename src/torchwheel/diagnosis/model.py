"""What a diagnosis is made of: known failures, the places where they were recognised, and the result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.terminal import shell_word

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


STOPPED = "build-stopped"
"""The class of a failure of which the log shows no more than that a step failed."""
MOST_LINES = 60
"""Lines of a message that are looked at."""
_HEADLINE = re.compile(r"CMake (?:Deprecation )?(?:Error|Warning)\b")
_INDENT = "  "
_AFTER_MESSAGE = 2
"""Empty lines below a message; an empty paragraph in one is an odd number of them."""


class Phase(Enum):
    """When a failure happens."""

    CONFIGURE = "configure"
    COMPILE = "compile"
    LINK = "link"
    PACKAGE = "package"
    IMPORT = "import"
    RUNTIME = "runtime"
    BUILD = "build"
    """Somewhere in the build: a class of errors does not say where."""

    @property
    def of_build(self) -> bool:
        """Whether the phase belongs to building rather than to using what was built."""
        return self not in (Phase.IMPORT, Phase.RUNTIME)


@dataclass(frozen=True)
class Pattern:
    """Text by which an entry is recognised.

    Attributes:
        needle: a literal that every line in question holds; searched first, because that is fast.
        regex: must be found in a line that holds the needle; its groups fill the entry's messages.
    """

    needle: str
    regex: re.Pattern[str]


@dataclass(frozen=True)
class Entry:
    """One known failure.

    Attributes:
        id: stable identifier in kebab case.
        title: one line; may hold ``{captures}``, as ``means`` and ``change`` may.
        phase: when it happens.
        rank: 3 for a cause, 2 for what is often the consequence of another entry near it, 1 for a hint that
            any other entry of the same log beats, 0 for a class of errors.
        patterns: one of them must be found.
        context: each must be found in a line nearby.
        details: searched in lines nearby only for their captures.
        otherwise: the captures' texts where the log does not say.
        means: what the message means.
        change: what to change, most likely first.
        applies: limits by ``pytorch`` or ``cuda`` version and ``platform``; empty if there are none.
        links: threads and pages behind it.
        explains: ids of the entries and classes of which it is the reason.
        may_explain: of those that are lines of the same message or step.
        shown_at: of those whose line says more than the entry's own.
        memory: how it shows that memory ran out: ``reported`` by the program itself, or ``killed``, which may have
            another reason; empty if it does not.
    """

    id: str
    title: str
    phase: Phase
    rank: int
    patterns: tuple[Pattern, ...]
    context: tuple[re.Pattern[str], ...]
    details: tuple[re.Pattern[str], ...]
    otherwise: Mapping[str, str]
    means: str
    change: tuple[str, ...]
    applies: Mapping[str, str]
    links: tuple[str, ...]
    explains: frozenset[str] = frozenset()
    may_explain: frozenset[str] = frozenset()
    shown_at: frozenset[str] = frozenset()
    memory: str = ""


class Severity(Enum):
    """What an event says of the build, as the tool means it; what counts most comes first."""

    ERROR = "error"
    """The tool stops at it."""
    SAID = "said"
    """An error in the tool's own words alone, which a script may have caught: it counts where the step then fails."""
    PROBE = "probe"
    """A question to the compiler, whose failure is an answer (``probes.toml``)."""
    STOPPED = "stopped"
    """A step failed; the reason is elsewhere."""
    CONSEQUENCE = "consequence"
    """A product is missing, so that an earlier step has failed if any event stands before."""
    NOTE = "note"
    """A status line or a warning."""


@dataclass(frozen=True)
class LogLine:
    """A line of the log, without colours and prefixes.

    Attributes:
        number: counted from 1.
        text: the line as it is shown.
    """

    number: int
    text: str


@dataclass(frozen=True)
class Recognised:
    """An event of a log: an entry of the catalogue, or a class of errors.

    Attributes:
        entry: what was found.
        captures: the texts that fill the entry's messages.
        line: where it was found first.
        excerpt: that line and some around it.
        count: how many lines say the same; at least this many in very long logs.
        severity: what it says of the build.
        announces: whether it passes on what another program said.
        tried: those of the entry's remedies that the log shows as applied.
        message: numbers of the first and last line of the message of CMake's that it is part of.
    """

    entry: Entry
    captures: Mapping[str, str]
    line: LogLine
    excerpt: tuple[LogLine, ...]
    count: int
    severity: Severity = Severity.ERROR
    announces: bool = False
    message: tuple[int, int] | None = None
    tried: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        return fill(self.entry.title, self.captures)

    @property
    def means(self) -> str:
        """The entry's meaning with what the log says."""
        return fill(self.entry.means, self.captures)

    @property
    def change(self) -> tuple[str, ...]:
        """What to change, with what the log says; in commands it is quoted, since the log may be a stranger's."""
        untried = [text for text in self.entry.change if text not in self.tried]
        return tuple(_fill_commands(text, self.captures) for text in untried or self.entry.change)


class Outcome(Enum):
    """What a log came to."""

    KNOWN = "known"
    """The catalogue knows the failure."""
    CLASSIFIED = "classified"
    """The catalogue does not know the failure, and the form of the error line tells its class."""
    UNKNOWN = "unknown"
    """Something failed, and the log does not say why."""
    CLEAN = "clean"
    """The log shows no failure."""
    NO_LOG = "no-log"
    """It is no log: empty, or not a text."""


@dataclass(frozen=True)
class Diagnosis:
    """What a log says.

    Attributes:
        cause: the first cause: an entry of the catalogue, or the class of the first error; None in a clean log.
        others: whatever else was recognised, in the order of the log.
        lines: how many lines were read.
        bytes: how many bytes were read.
        passed_over: how many lines that could tell of a failure were not looked at, as so many stand before them.
        is_text: whether it is a text at all, rather than an archive or a program.
        is_empty: whether it holds nothing but blanks.
    """

    cause: Recognised | None
    others: tuple[Recognised, ...]
    lines: int
    bytes: int
    passed_over: int = 0
    is_text: bool = True
    is_empty: bool = False

    @property
    def outcome(self) -> Outcome:
        """How much is known of the failure, or that there is none."""
        if self.cause is None:
            return Outcome.CLEAN if self.is_text and not self.is_empty else Outcome.NO_LOG
        if self.cause.entry.rank:
            return Outcome.KNOWN
        return Outcome.UNKNOWN if self.cause.entry.id == STOPPED else Outcome.CLASSIFIED

    def caused(self, other: Recognised) -> bool:
        """Whether the cause is known to explain ``other``."""
        return self.cause is not None and other.entry.id in self.cause.entry.explains


def fill(text: str, captures: Mapping[str, str]) -> str:
    """``text`` with its ``{captures}`` filled in; those that are missing stay as they are."""
    return _PLACEHOLDER.sub(lambda match: captures.get(match[1], match[0]), text)


def _fill_commands(text: str, captures: Mapping[str, str]) -> str:
    """``text`` with its captures filled in; in a command between backticks each is one word of a shell."""
    quoted = {name: shell_word(value) for name, value in captures.items()}
    parts = text.split("`")
    return "`".join(
        # A name alone is no command.
        fill(part, quoted if number % 2 and not _PLACEHOLDER.fullmatch(part) else captures)
        for number, part in enumerate(parts)
    )


def frozen(table: Mapping[str, str]) -> Mapping[str, str]:
    """A read-only copy of ``table``."""
    return MappingProxyType(dict(table))


@cache
def catalogue() -> tuple[Entry, ...]:
    """All known failures, in the order of their files."""
    paths = sorted(Path(__file__).with_name("catalogue").glob("*.toml"))
    return tuple(_entry(table) for path in paths for table in read_toml(path)["entry"])


def _explained(by: str, value: str, id: str) -> frozenset[str]:
    """The ids of what an entry explains by its id or its phase (``explains.toml``)."""
    rows = (row for row in _explanations() if value in row.get(by, ()) and id not in row.get("not", ()))
    return frozenset(error for row in rows for error in row["errors"])


@cache
def _explanations() -> Sequence[Mapping[str, Any]]:
    rows: Sequence[Mapping[str, Any]] = read_toml(Path(__file__).with_name("explains.toml"))["explains"]
    return rows


def _entry(table: Mapping[str, Any]) -> Entry:
    return Entry(
        id=table["id"],
        title=table["title"],
        phase=Phase(table["phase"]),
        rank=table["rank"],
        patterns=tuple(Pattern(one["needle"], re.compile(one["regex"])) for one in table["patterns"]),
        context=tuple(map(re.compile, table.get("context", ()))),
        details=tuple(map(re.compile, table.get("details", ()))),
        otherwise=frozen(table.get("otherwise", {})),
        means=table["means"],
        change=tuple(table["change"]),
        applies=frozen(table.get("applies", {})),
        links=tuple(table["links"]),
        explains=_explained("causes", table["id"], table["id"]),
        shown_at=frozenset(
            error
            for row in _explanations()
            if row.get("shown") == "errors" and table["id"] in row.get("causes", ())
            for error in row["errors"]
        ),
        may_explain=_explained("phases", table["phase"], table["id"]),
        memory=table.get("memory", ""),
    )


def cmake_message(lines: Sequence[LogLine], number: int) -> tuple[LogLine, ...]:
    """The headline and the message of CMake's that a line is part of, up to the call stack or two empty lines.

    cmMessenger.cxx indents what ``message()`` was given by two spaces; the call stack below is not indented.

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
