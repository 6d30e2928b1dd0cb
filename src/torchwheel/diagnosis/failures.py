"""The model of a diagnosis: known failures, recognised events, and the result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from torchwheel.diagnosis.facts import Facts
from torchwheel.diagnosis.fixes import ALTERNATIVE, choose, join_met, meet_conditions
from torchwheel.diagnosis.packages import CALLED, Package, find_package
from torchwheel.reporting.terminal import shell_word
from torchwheel.system.toml import read_toml, shipped_toml

_EXPLAINS = Path(__file__).with_name("explains.toml")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NO_LINE = re.compile(r"(?P<comma>,)? (?:at |above |in |of )?line \?(?(comma),?)")
_PASSES_ON = re.compile(r":\s*$|(?i:\b(?:output|stderr|stdout|logs?|root cause)\b)")

MOST_FIXES = 2
"""What helps most often stands first; ``torchwheel diagnose --all`` shows the rest."""
STOPPED = "build-stopped"
"""The class of a failure without a shown reason."""
SAYS = "step-says"
"""The class of a failure whose last words have no known form."""
GENERAL = frozenset({"tool-error", "python-exception", "setup-failed", "cmake-error"})
"""Classes of errors of which only the tool's own message is known."""
ANNOUNCING = frozenset(
    {"compiler-does-not-work", "cmake-error", "build-backend-missing", "cuda-compiler-broken"}
)
"""What reports that another program failed, and quotes its output: an error in the quotation is the cause."""


class Phase(Enum):
    """When a failure happens."""

    CONFIGURE = "configure"
    COMPILE = "compile"
    LINK = "link"
    PACKAGE = "package"
    IMPORT = "import"
    RUNTIME = "runtime"
    BUILD = "build"
    """Somewhere in the build: the place is unknown for a class of errors."""


@dataclass(frozen=True)
class Entry:
    """One known failure.

    Attributes:
        title: one line; like ``means`` and ``change`` it may contain ``{captures}``. Of each, and of the links, only
            what has no condition or one that holds counts (``facts.meet_conditions``).
        rank: 3 for a cause, 2 for a frequent consequence of another entry near it, 1 for a hint that any other
            entry of the same log overrides, 0 for a class of errors.
        otherwise: default texts of the captures.
        change: the fixes, most likely first.
        applies: limits by ``pytorch`` or ``cuda`` version and ``platform``; empty if there are none.
        explains: ids of the entries and classes that it causes, each with the capture that both must share, if any.
        may_explain: ids of those it may cause, in lines of the same message or step.
        shown_at: ids of those whose line is more informative than the entry's own.
        memory: evidence that memory ran out: ``reported`` by the program itself, or ``killed``, which may have
            another reason; empty for none.
    """

    id: str
    title: str
    phase: Phase
    rank: int
    otherwise: Mapping[str, str]
    means: str
    change: tuple[str, ...]
    applies: Mapping[str, str]
    links: tuple[str, ...]
    explains: Mapping[str, str]
    may_explain: frozenset[str]
    shown_at: frozenset[str]
    memory: str

    def title_of(self, known: Mapping[str, str], evident: Mapping[str, str] | None = None) -> str:
        """Return the title; its conditions ask what is evident, by default all that is known."""
        return fill_captures(join_met(self.title, known if evident is None else evident), known).strip()

    @property
    def limits(self) -> str:
        return ", ".join(f"{name} {limit}" for name, limit in sorted(self.applies.items()))


class Effect(Enum):
    """The effect of an event on the build, the worst first."""

    ERROR = "error"
    """The tool stops at it."""
    SAID = "said"
    """A generic error, which a script may have handled: it counts if the step then fails."""
    PROBE = "probe"
    """A probe of the compiler, which may fail (``probes.toml``)."""
    STOPPED = "stopped"
    """A step failed; the reason is elsewhere."""
    CONSEQUENCE = "consequence"
    """A product is missing because of an earlier event, if there is one."""
    SURVIVED = "survived"
    """The step went on after it."""
    NOTE = "note"
    """A status line or a warning."""


@dataclass(frozen=True)
class LogLine:
    """A line of the log, without colours and prefixes; the first has the number 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Recognised:
    """An event of a log: an entry of the catalogue, or a class of errors.

    Attributes:
        line: the first matching line.
        excerpt: that line and some around it.
        count: the number of matching lines; a minimum in very long logs.
        goes_on: whether an ordinary line follows.
        hints: what the tool itself advises.
        message: numbers of the first and last line of its CMake message.
        below: lines below it, in which its message may go on.
        package: the one that it is of, if that is known.
    """

    entry: Entry
    captures: Mapping[str, str]
    line: LogLine
    excerpt: tuple[LogLine, ...]
    count: int
    effect: Effect
    goes_on: bool
    message: tuple[int, int] | None
    below: tuple[str, ...] = ()
    package: Package | None = None
    facts: Facts = field(default_factory=Facts)
    hints: tuple[str, ...] = ()

    @cached_property
    def known(self) -> Mapping[str, str]:
        facts = self.facts.fill(self.captures)
        if self.package is None:
            return facts
        release = self.facts.releases.get(canonicalize_name(self.package.name), "")
        return {**facts, **self.package.describe({**facts, "release": release})}

    @cached_property
    def evident(self) -> Mapping[str, str]:
        """What the log shows: without the texts that stand for what it does not."""
        texts = {name: fill_captures(text, self.captures) for name, text in self.entry.otherwise.items()}
        return {name: text for name, text in self.known.items() if texts.get(name) != text}

    @property
    def title(self) -> str:
        return self.entry.title_of(self.known, self.evident)

    @property
    def may_have_hints(self) -> bool:
        """Whether a hint is for who reads it: an entry knows better, and installed code is its author's."""
        is_of_name = not self.captures.keys().isdisjoint(("is_name", "nameerror", "attributeerror"))
        return not (self.entry.rank or (is_of_name and "raised_in" in self.captures))

    @property
    def announces(self) -> bool:
        """Whether it reports the failure of another program, whose output follows."""
        says = self.captures.get("message", "")
        return self.entry.id in ANNOUNCING or (self.entry.id in GENERAL and bool(_PASSES_ON.search(says)))

    def is_of_message(self, line: LogLine) -> bool:
        """Whether a line is part of the CMake message that the event is in."""
        return self.message is not None and self.message[0] <= line.number <= self.message[1]

    @property
    def means(self) -> str:
        met = meet_conditions(self.entry.means.strip().splitlines(), self.evident)
        # Where the very words are known, the first sentence is of this failure and the others of its kind.
        return fill_captures(" ".join(islice(met, 1 if self._is_told else None)), self.known)

    def _fixes_of(self, id: str) -> Sequence[str]:
        """The fixes that are known of the packages whose failure it may be; without a kind, those of its very words."""
        called = (one for one in map(find_package, CALLED) if one != self.package)
        said = "\n".join((self.line.text, *self.captures.values(), *self.below))
        packages = filter(None, (self.package, *called))
        fixes = (one.fixes_of(id, said, self.facts.all_releases) for one in packages)
        return tuple(meet_conditions(chain.from_iterable(fixes), self.evident))

    @cached_property
    def _said_so(self) -> Sequence[str]:
        """The fixes of a failure whose very words are known; those of an entry stand below."""
        return self._fixes_of("")

    @property
    def _is_told(self) -> bool:
        """Whether the very words say more than what is true of all of its class."""
        return bool(self._said_so) and not self.entry.rank

    @property
    def shown_fixes(self) -> tuple[str, ...]:
        return self.change[:MOST_FIXES]

    @property
    def links(self) -> tuple[str, ...]:
        return tuple(meet_conditions(self.entry.links, self.evident))

    @cached_property
    def change(self) -> tuple[str, ...]:
        """The fixes for this system and build, with captures filled in.

        Captures are quoted in commands, because the log may be untrusted.
        """
        of_kind = self._fixes_of(self.entry.id)
        own = [*of_kind, *self._said_so] if self.entry.rank else [*self._said_so, *of_kind]
        alternatives = [text for text in own if ALTERNATIVE.match(text)]
        first = (text for text in own if text not in alternatives)
        general = () if self._is_told else meet_conditions(self.entry.change, self.evident)
        fixes = (*first, *general, *alternatives)
        chosen = choose((_fill_commands(text, self.known) for text in fixes), self.facts)
        if self.package:
            chosen = tuple(self.package.adapt(text, self.facts.shown) for text in chosen)
        # A name of another release, or an option of another compiler, is not meant, though it may be like it.
        hints = () if self._said_so or self.known.keys() & {"api", "clang"} else self.hints
        return (*(f"as the tool says: {hint}" for hint in hints), *chosen)


class Outcome(Enum):
    """The outcome of the work that a log is of."""

    FAILED = "failed"
    SUCCEEDED = "succeeded"
    """The log ends with the last words of work that went well (``endings.toml``)."""
    UNKNOWN = "unknown"
    """The log shows neither: it ends midway, or its form is not known."""
    NO_LOG = "no-log"
    """Not a log: empty, or not text."""


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a log.

    Attributes:
        cause: an entry of the catalogue, or the class of the first error; None without a failure.
        passed_over: the number of possible error lines that were skipped because of the limit.
        ended_well: whether the log ends with words of success.
    """

    cause: Recognised | None
    others: tuple[Recognised, ...]
    lines: int
    bytes: int
    last_lines: tuple[LogLine, ...]
    passed_over: int
    ended_well: bool
    is_text: bool
    is_empty: bool

    @property
    def outcome(self) -> Outcome:
        if self.cause is not None:
            return Outcome.FAILED
        if self.is_empty or not self.is_text:
            return Outcome.NO_LOG
        return Outcome.SUCCEEDED if self.ended_well else Outcome.UNKNOWN

    @property
    def explains(self) -> bool:
        """Whether the log shows why it failed."""
        return self.cause is not None and self.cause.entry.id not in (STOPPED, SAYS)

    def has_caused(self, other: Recognised) -> bool:
        """Whether the cause is known to explain ``other``."""
        return self.cause is not None and other.entry.id in self.cause.entry.explains


def fill_captures(text: str, captures: Mapping[str, str]) -> str:
    """Fill in the ``{captures}`` of a text; missing ones are left unchanged, and a line that is not known out."""
    return _NO_LINE.sub("", _PLACEHOLDER.sub(lambda match: captures.get(match[1], match[0]), text))


def _fill_commands(text: str, captures: Mapping[str, str]) -> str:
    """Fill in the captures of a text; in a command between backticks each is quoted as one shell word."""
    quoted = {name: shell_word(value) for name, value in captures.items()}
    parts = text.split("`")
    return "`".join(
        # A name alone is not a command.
        fill_captures(part, quoted if number % 2 and not _PLACEHOLDER.fullmatch(part) else captures)
        for number, part in enumerate(parts)
    )


@cache
def read_catalogue() -> tuple[Entry, ...]:
    """Read all known failures, in the order of their files."""
    return tuple(read_entry(table["id"], table) for table in catalogue_tables())


def catalogue_tables() -> Iterator[Mapping[str, Any]]:
    for path in sorted(Path(__file__).with_name("catalogue").glob("*.toml")):
        yield from read_toml(path)["entry"]


def read_entry(id: str, table: Mapping[str, Any]) -> Entry:
    """Read an entry of the catalogue or, where phase and rank are not given, a class of errors."""
    phase = table.get("phase", "build")
    rows = [row for row in shipped_toml(_EXPLAINS)["explains"] if id not in row.get("not", ())]
    of_causes = [row for row in rows if id in row.get("causes", ())]
    return Entry(
        id=id,
        title=table["title"],
        phase=Phase(phase),
        rank=table.get("rank", 0),
        otherwise=table.get("otherwise", {}),
        means=table["means"],
        change=tuple(table["change"]),
        applies=table.get("applies", {}),
        links=tuple(table.get("links", ())),
        explains={error: row.get("same", "") for row in of_causes for error in row["errors"]},
        may_explain=_errors_of(row for row in rows if phase in row.get("phases", ())),
        shown_at=_errors_of(row for row in of_causes if "shown" in row),
        memory=table.get("memory", ""),
    )


def _errors_of(rows: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(error for row in rows for error in row["errors"])
