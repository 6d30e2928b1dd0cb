"""Find the first cause in a log of any size, in one pass and with bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import compress, takewhile, zip_longest
from pathlib import Path
from typing import BinaryIO

from torchwheel.diagnosis import cmake_messages
from torchwheel.diagnosis.causes import STEP_LINES, Stop, first_cause
from torchwheel.diagnosis.cmake_messages import LONGEST_MESSAGE, CMakeMessage, is_status, read_message
from torchwheel.diagnosis.decoding import (
    LONGEST_TEXT,
    TailLine,
    Window,
    is_text,
    line_blocks,
    read_chunks,
    read_windows,
)
from torchwheel.diagnosis.endings import last_ending, settles, settling_needles
from torchwheel.diagnosis.facts import Facts, read_facts, tool_hints
from torchwheel.diagnosis.failures import (
    MOST_LINES,
    STOPPED,
    Diagnosis,
    Entry,
    LogLine,
    Pattern,
    Recognised,
    Severity,
    cmake_message,
    fill_captures,
    freeze,
    read_catalogue,
)
from torchwheel.diagnosis.grammar import (
    ESCAPED_LINE_END,
    ESCAPED_LINES,
    Classified,
    Role,
    classify,
    is_noise,
    normalise_line,
    read_classes,
)
from torchwheel.diagnosis.grammar import form_needles as grammar_needles
from torchwheel.diagnosis.prefilter import Hit, Prefilter
from torchwheel.system.toml import read_toml

EXCERPT_LINES = 4
"""Lines shown on each side of a recognised line."""

NEARBY_LINES = STEP_LINES
"""Lines on each side to search for context and details; many, because parallel jobs mix their output."""

BELOW_LINES = 8
"""Lines below a match that may cancel or complete it: git reports a retry three lines later."""

ERRORS_KEPT = 5
"""Maximum classified errors to keep, besides the catalogue's entries."""

LINES_PER_NEEDLE = 20_000
LINES_CLASSIFIED = 10_000
"""Limit of possible error lines to classify, including escaped ones in other lines; bounds the time for a log."""
# Per megabyte, a log of short lines would cost a multiple of one with long lines.
LEAST_CLASSIFIED, BYTES_FOR_ONE_CLASSIFIED = 2_000, 500
LEAST_SEARCHED, BYTES_FOR_ONE_SEARCHED = 10_000, 100
# A longer line costs as much as several.
_LENGTH_OF_ONE = 250
# A line in another language is searched for in the catalogues of the installed tools.
_COST_OF_OTHER_LANGUAGES = 3
# Searching a line for hundreds of entries costs as much as many lines.
_CHARACTERS_FOR_ONE_SEARCHED = 10_000
CONTEXTS_TRIED = 1_000
"""Limit of matches of an entry whose context is searched; bounds the time for a log that never has it."""
MESSAGE_LINES_READ = 20_000
"""Limit of lines of CMake messages; bounds the time for a log of many."""
STOPS_KEPT = 1_000
LONGEST_CAPTURE = 160
MOST_NAMES = 5
"""Maximum names of one kind, such as undefined symbols, to list."""
HEAD_BYTES = 1 << 16
"""Bytes of a log's beginning to search for fixes already applied, because it shows the commands."""
_ERROR_NEEDLES = frozenset({"rror", "error", "erro"})
_WARNING_OPTION = re.compile(r"-W(?:no-)?error(?:=[\w+-]{1,60})?(?!\S)")

FAILURE = "Failed to build "
"""The last message of pip, build and uv."""
_VERDICTS = settling_needles() | {FAILURE}
TAIL_LINES = 200
"""Lines of a log's end in which words of success are looked for."""
HINT_LINES = 2
"""Lines below an error in which the tool may say what to do."""
LAST_LINES = 8
"""Lines of it to show."""

_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{3,}=[\w.;:/-]+")
_SETTING = re.compile(r"(?<![\w-])(?:--[a-z][\w-]+(?:=[\w.;:/-]+)?|[A-Za-z][\w.-]{3,}=[\w.,;:/-]+)")
_PLACEHOLDER = re.compile(r"…|\{|=(?:DIR|NAME|VALUE|N)\b")

_END_OF_COMPILATION = re.compile(
    r"^(?:compilation terminated|\d{1,9} (?:errors?|warnings? and \d{1,9} errors?) generated|collect2|FAILED: "
    r"|ninja: build|g?make[\[:])"
)

_OF_FAILURE = re.compile(
    r"(?i)error|exception|traceback|fail|fatal|killed|abort|stopp|exit|terminated|\*\*\*"
    r"|note: |^\s*[\xd7\u2570\u2502\u251c]"
)
_CHECKED_OUT = re.compile(r"Submodule path '[^']+': checked out ")
"""What git says where a second attempt helped."""
_IS_WARNING = re.compile(r"^\S+:\d+: \w*Warning:\s*$")
_LOGGED_WARNING = re.compile(r"^\s*\[?WARN(?:ING)?\b")
_SOURCE_OF_WARNING = re.compile(r"^\s*warnings\.warn\(")
_EXCEPTION = re.compile(r"^\s*(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b")
WARNING_LINES = 6
"""Lines of a warning of Python's below its first line."""
_WARNS = re.compile(
    r"^\s*[\[(*]{0,3}(?:WARN(?:ING)?|[Ww]arning)\b(?!: (?:Retrying|Discarding))"
    r"|^\S+:\d+: \w*Warning: |^Exception ignored in"
)

_LAST_OF_COMPILER = re.compile(r"^(?:compilation terminated|\d{1,9} errors? generated|collect2)")

VERDICT_LINES = 3
"""Lines of the verdict: pip lists the packages that were built, then those that were not."""


def diagnose(
    stream: BinaryIO | Iterable[bytes], known: Iterable[Entry] | None = None, facts: Facts | None = None
) -> Diagnosis:
    """Diagnose a log: read it to its end and find the first cause (``causes.first_cause``).

    Args:
        stream: an open binary file or pipe, or chunks of bytes.
        known: the catalogue; the shipped one by default.
        facts: the system and the builder, if they are known; else the log shows them.

    Raises:
        OSError: the stream cannot be read.
    """
    scan = _Scan(tuple(read_catalogue() if known is None else known))
    for window in read_windows(line_blocks(scan.count_bytes(read_chunks(stream)))):
        scan.read(window)
    return scan.diagnosis(facts)


@dataclass(frozen=True)
class _Place:
    """A line found by the prefilter."""

    window: Window
    hit: Hit
    number: int

    @cached_property
    def text(self) -> str:
        """The line; of a very long one the part around the match."""
        start = max(self.hit.start, self.hit.position - LONGEST_TEXT // 2)
        return self.window.clean(self.window.block[start : min(self.hit.end, start + 2 * LONGEST_TEXT)])

    @property
    def line(self) -> LogLine:
        return LogLine(self.number, self.text)

    @cached_property
    def _texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The lines above, the nearest first, and those from this one on."""
        around = self._lines_around(NEARBY_LINES)
        texts, own = [line.text for line in around], self.number - around[0].number
        return tuple(reversed(texts[:own])), tuple(texts[own:])

    @cached_property
    def _nearby(self) -> tuple[str, ...]:
        above, (own, *below) = self._texts
        rest = (line for pair in zip_longest(above, below) for line in pair if line is not None)
        return (own, *rest)

    def nearby(self) -> tuple[str, ...]:
        """The lines around, the nearest first."""
        return self._nearby

    def lines_below(self) -> Iterator[LogLine]:
        """The lines after this one, up to the maximum length of a message."""
        return self.window.lines_below(self.hit.end, self.number, LONGEST_MESSAGE)

    def above(self) -> tuple[str, ...]:
        """The lines above, the nearest first."""
        return self._texts[0]

    def after(self) -> tuple[str, ...]:
        """The lines after this one."""
        return self._texts[1][1 : BELOW_LINES + 1]

    @property
    def goes_on(self) -> bool:
        """Whether the next line that is indented no further is an ordinary one."""
        line = next((line for line in self.after() if self._is_as_far_left(line)), "").lstrip()
        return line != "" and not _OF_FAILURE.search(line)

    @property
    def is_caught(self) -> bool:
        """Whether it is only a warning, or becomes one, or is an exception that a warning is about."""
        message = takewhile(lambda line: not _SOURCE_OF_WARNING.match(line), self.above()[:WARNING_LINES])
        if _WARNS.search(self.text) or any(map(_IS_WARNING.search, message)):
            return True
        own = self.text.split()[:1]
        following = (
            line for line in self.after() if line.split()[:1] != own and not _LAST_OF_COMPILER.match(line)
        )
        told = next((one for one in following if _OF_FAILURE.search(one) or _LOGGED_WARNING.search(one)), "")
        if _LOGGED_WARNING.search(told) and not _EXCEPTION.search(self.text):
            return True
        above = iter(self.above())
        for line in above:
            if line.lstrip().startswith("Traceback (most recent"):
                return _WARNS.search(next(above, "")) is not None
            if self._is_as_far_left(line):
                break
        return False

    def _is_as_far_left(self, line: str) -> bool:
        own = len(self.text) - len(self.text.lstrip())
        return bool(line[: own + 1].strip())

    def excerpt(self) -> tuple[LogLine, ...]:
        """This line and some around it; the whole message if CMake wrote it."""
        around = self._lines_around(MOST_LINES)
        message = cmake_message(around, self.number)
        near = (abs(line.number - self.number) <= EXCERPT_LINES or line in message for line in around)
        return tuple(self.line if one.number == self.number else one for one in compress(around, near))

    def _lines_around(self, lines: int) -> tuple[LogLine, ...]:
        return self.window.lines_around(self.hit.start, self.hit.end, self.number, lines)


class _Scan:
    """The state after the windows read so far."""

    def __init__(self, known: tuple[Entry, ...]) -> None:
        patterns = [(entry, pattern) for entry in known for pattern in entry.patterns]
        self._by_needle: dict[str, list[tuple[int, Entry, Pattern]]] = {}
        for number, (entry, pattern) in enumerate(patterns):
            self._by_needle.setdefault(pattern.needle, []).append((number, entry, pattern))
        self._needles = frozenset(grammar_needles())
        self._order = {entry.id: number for number, entry in enumerate(known)}
        self._prefilter = Prefilter(
            [*self._by_needle, *grammar_needles(), *cmake_messages.NEEDLES],
            LINES_PER_NEEDLE,
            _VERDICTS,
        )
        self._found, self._settled = _Found({}, [], [], {}), _Found({}, [], [], {})
        self._contexts = dict.fromkeys(self._order, CONTEXTS_TRIED)
        self._success_line = 0
        self._candidates = 0
        self._searched = 0
        self._passed_over = 0
        self._message: CMakeMessage | None = None
        self._message_lines = 0
        self._lines = 0
        self._tail: tuple[TailLine, ...] = ()
        self._bytes = 0
        self._head = b""
        self._is_text = True
        self._is_empty = True

    def count_bytes(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if not self._bytes:
                self._is_text = is_text(chunk)
            self._head += chunk[: HEAD_BYTES - len(self._head)]
            self._is_empty = self._is_empty and chunk.isspace()
            self._bytes += len(chunk)
            yield chunk

    def read(self, window: Window) -> None:
        for place in _places_in(window, self._worth_a_look(window.block)):
            self._heed_verdict(place)
            self._process_place(place)
        self._lines = window.last_line
        self._tail = window.tail(TAIL_LINES)

    def _worth_a_look(self, block: bytes) -> Iterator[Hit]:
        """The lines with needles; after the limit, only those with the verdict of a build."""
        for hit in self._prefilter.find_hits(block):
            if not self._is_spent or not _VERDICTS.isdisjoint(hit.needles):
                yield hit
            else:
                self._passed_over += 1

    @property
    def _is_spent(self) -> bool:
        return self._searched > max(LEAST_SEARCHED, self._bytes // BYTES_FOR_ONE_SEARCHED)

    def _heed_verdict(self, place: _Place) -> None:
        """Drop earlier findings after a successful build, unless it was one of several packages."""
        if settles(place.text, place.hit.needles):
            self._settled, self._found = self._found, self._found.after_success()
            self._success_line = place.number
        if FAILURE in place.hit.needles and place.number - self._success_line <= VERDICT_LINES:
            self._found = self._settled.merged_with(self._found)

    def _process_place(self, place: _Place) -> None:
        self._searched += 1
        if self._is_spent:
            self._passed_over += 1
            return
        seen: set[str] = set()
        message = self._message_of(place)
        english = normalise_line(_searched_text(place, message))
        # The needles of the line are known; the translated or joined text may have others.
        needles = (
            place.hit.needles if english == place.text else [one for one in self._by_needle if one in english]
        )
        rows = sorted(
            (row for needle in needles for row in self._by_needle.get(needle, ())), key=lambda row: row[0]
        )
        self._searched += len(rows) * len(english) // _CHARACTERS_FOR_ONE_SEARCHED
        for _, entry, pattern in rows:
            if entry.id in seen:
                continue
            match = pattern.regex.search(english)
            if match is not None:
                seen.add(entry.id)
                self._recognise(place, entry, match, message)
        if (
            (message is None or message.is_error)
            and not self._needles.isdisjoint(place.hit.needles)
            and len(self._found.errors) < ERRORS_KEPT
            and not self._is_command(place)
        ):
            escaped = min(ESCAPED_LINES, place.text.count(ESCAPED_LINE_END))
            cost = 1 + escaped + len(place.text) // _LENGTH_OF_ONE
            self._candidates += cost if place.text.isascii() else cost * _COST_OF_OTHER_LANGUAGES
            allowed = max(LEAST_CLASSIFIED, self._bytes // BYTES_FOR_ONE_CLASSIFIED)
            if self._candidates <= min(LINES_CLASSIFIED, allowed):
                self._classify(place, message)
            else:
                self._passed_over += 1

    def _message_of(self, place: _Place) -> CMakeMessage | None:
        """The CMake message that the line is part of."""
        if "CMake " in place.text and self._message_lines < MESSAGE_LINES_READ:
            message = read_message(place.line, place.lines_below())
            if message is not None:
                self._message, self._message_lines = message, self._message_lines + len(message.lines)
        return self._message if self._message is not None and self._message.contains(place.number) else None

    def _is_command(self, place: _Place) -> bool:
        """Whether only compiler options mention errors, such as -Werror=… in every command of a verbose log."""
        speaks_of_errors = self._needles.intersection(place.hit.needles) <= _ERROR_NEEDLES
        return speaks_of_errors and "rro" not in _WARNING_OPTION.sub("", place.text)

    def _classify(self, place: _Place, message: CMakeMessage | None) -> None:
        found = classify(place.text, place.nearby, place.after, in_cmake_error=message is not None)
        if found is None or found.role is Role.NOISE:
            return
        stopped = found.role is Role.STOPPED
        probe = message is None and _is_probe(place)
        if stopped and (probe or place.is_caught) and _END_OF_COMPILATION.match(place.text.lstrip()):
            return
        if stopped and len(self._found.stops) < STOPS_KEPT:
            self._found.stops.append(Stop(place.number, found.comes_first))
        if is_status(place.text) and not stopped:
            return
        kept = self._found.stopped if stopped else self._found.errors
        if stopped and kept:
            return
        entry = read_classes()[STOPPED if stopped else found.error_class]
        otherwise = {name: fill_captures(text, found.captures) for name, text in entry.otherwise.items()}
        captures = freeze({**otherwise, **found.captures})
        same = next(
            (n for n, one in enumerate(kept) if one.title == fill_captures(entry.title, captures)), None
        )
        if same is None:
            kept.append(
                Recognised(
                    entry,
                    captures,
                    place.line,
                    place.excerpt(),
                    count=1,
                    severity=Severity.PROBE if probe and not stopped else _judge_severity(found, place),
                    announces=found.announces,
                    goes_on=place.goes_on,
                    message=message.numbers if message else None,
                )
            )
        else:
            kept[same] = replace(kept[same], count=kept[same].count + 1)

    def _recognise(
        self, place: _Place, entry: Entry, match: re.Match[str], message: CMakeMessage | None
    ) -> None:
        recognised = self._found.recognised
        known = recognised.get(entry.id)
        if known is not None and known.severity not in (Severity.NOTE, Severity.SURVIVED):
            recognised[entry.id] = replace(known, count=known.count + 1)
            return
        if self._contexts[entry.id] <= 0:
            return
        self._contexts[entry.id] -= 1
        nearby = place.nearby() if entry.context or entry.details else ()
        if not all(any(regex.search(line) for line in nearby) for regex in entry.context):
            return
        captures = {**entry.otherwise, **_find_details(entry, nearby), **_present_groups(match.groupdict())}
        retried = is_noise(place.text, place.nearby, place.after)
        if retried and any(map(_CHECKED_OUT.match, place.after())):
            return
        found = self._found.retried if retried else recognised
        is_note = is_status(place.text) or (message is not None and not message.is_error)
        found[entry.id] = Recognised(
            entry,
            freeze(captures),
            place.line,
            place.excerpt(),
            count=1,
            severity=Severity.NOTE
            if is_note
            else Severity.SURVIVED
            if place.is_caught
            else Severity.PROBE
            if message is None and _is_probe(place)
            else Severity.ERROR,
            message=message.numbers if message else None,
        )

    def diagnosis(self, facts: Facts | None) -> Diagnosis:
        recognised = sorted(
            {**self._found.failed_retries(), **self._found.recognised}.values(),
            key=lambda one: (one.line.number, self._order[one.entry.id]),
        )
        ended = last_ending(self._tail)
        cause = first_cause(
            [*recognised, *self._found.errors, *self._found.stopped], self._found.stops, self._lines, ended
        )
        if cause is not None:
            lines = [line.text for line in cause.excerpt]
            log = "\n".join([self._head.decode("utf-8", "replace"), *lines])
            own = [line.text for line in cause.excerpt if 0 <= line.number - cause.line.number <= HINT_LINES]
            cause = replace(
                cause,
                tried=_tried_remedies(cause.entry, log),
                facts=facts if facts is not None else read_facts(log),
                hints=() if cause.entry.rank else tuple(dict.fromkeys(tool_hints(own)))[:1],
            )
        others = sorted((*recognised, *self._found.errors), key=lambda one: one.line.number)
        return Diagnosis(
            cause=cause,
            others=tuple(
                one
                for one in others
                if (cause is None or one.entry.id != cause.entry.id or one.title != cause.title)
                and not _is_near_entry(one, recognised)
                and not _is_announcement(one, cause)
            ),
            lines=self._lines,
            bytes=self._bytes,
            last_lines=tuple(one.line for one in self._tail if one.line.text)[-LAST_LINES:],
            ended_well=ended > 0,
            passed_over=self._passed_over,
            is_text=self._is_text,
            is_empty=self._is_empty,
        )


def _is_probe(place: _Place) -> bool:
    """Whether a line, or one just above it, names a source that a tool only tries to compile."""
    return any(_compile_probes().search(line) for line in (place.text, *place.above()[:BELOW_LINES]))


@cache
def _compile_probes() -> re.Pattern[str]:
    rows = read_toml(Path(__file__).with_name("probes.toml"))["probe"]
    return re.compile("|".join(row["regex"] for row in rows))


def _judge_severity(found: Classified, place: _Place) -> Severity:
    if found.role is Role.STOPPED:
        return Severity.STOPPED
    if found.consequence:
        return Severity.CONSEQUENCE
    if place.is_caught:
        return Severity.NOTE
    # What CMake calls an error ends its run; a traceback may have been caught, and a script may do without a program.
    if found.error_class == "cmake-error":
        return Severity.ERROR
    survivable = found.is_general or found.error_class == "command-missing" or found.tool.startswith("Python")
    return Severity.SAID if survivable else Severity.ERROR


def _searched_text(place: _Place, message: CMakeMessage | None) -> str:
    """The text to search for entries: the whole paragraph below CMake's headline, else the line."""
    if message is None or place.number == message.numbers[0]:
        return place.text
    return message.paragraph_at(place.number)[:LONGEST_TEXT]


def _is_announcement(one: Recognised, cause: Recognised | None) -> bool:
    """Whether an error only announces the cause, or is part of the same message."""
    if cause is None:
        return False
    message = one.captures.get("message", "")
    announced = one.severity is Severity.SAID and message and cause.line.text.strip().startswith(message)
    return bool(announced) or (
        not one.entry.rank and one.message is not None and one.message == cause.message
    )


def _is_near_entry(one: Recognised, entries: Sequence[Recognised]) -> bool:
    """Whether a class of errors is so near to a recognised entry that both mean the same failure."""
    return not one.entry.rank and any(
        abs(entry.line.number - one.line.number) <= NEARBY_LINES for entry in entries
    )


@dataclass(frozen=True)
class _Found:
    """The findings in a part of the log; grows while it is read.

    Attributes:
        recognised: entries of the catalogue.
        errors: the first errors, by class.
        stopped: the first line that only says that the build stopped.
        retried: entries in lines about attempts that are retried; the last line of each.
        stops: lines that report a failed step.
    """

    recognised: dict[str, Recognised]
    errors: list[Recognised]
    stopped: list[Recognised]
    retried: dict[str, Recognised]
    stops: list[Stop] = field(default_factory=list)

    def failed_retries(self) -> dict[str, Recognised]:
        """The retried entries that lead to a failure soon, so that retrying did not help."""
        return {
            id: one
            for id, one in self.retried.items()
            if any(
                0 < later.line.number - one.line.number <= NEARBY_LINES
                and later.entry.id in {id, *one.entry.explains}
                for later in (*self.recognised.values(), *self.errors, *self.stopped)
            )
        }

    def after_success(self) -> _Found:
        """The findings that remain after a successful build: failures in use, not of the build."""
        return _Found(
            {id: one for id, one in self.recognised.items() if not one.entry.phase.of_build}, [], [], {}
        )

    def merged_with(self, later: _Found) -> _Found:
        return _Found(
            {**later.recognised, **self.recognised},
            [*self.errors, *later.errors][:ERRORS_KEPT],
            [*self.stopped, *later.stopped][:1],
            {**self.retried, **later.retried},
            [*self.stops, *later.stops],
        )


def _places_in(window: Window, hits: Iterable[Hit]) -> Iterator[_Place]:
    number, position = window.first_line, 0
    for hit in hits:
        number += window.block.count(b"\n", position, hit.start)
        position = hit.start
        yield _Place(window, hit, number)


def _find_details(entry: Entry, nearby: tuple[str, ...]) -> dict[str, str]:
    captures: dict[str, str] = {}
    for regex in entry.details:
        matches = [found for line in nearby if (found := regex.search(line))]
        if matches:
            captures.update(_present_groups(matches[0].groupdict()))
        for name in regex.groupindex:
            if name.endswith("s"):
                every = dict.fromkeys(match[name] for match in matches if match[name])
                captures.update(_present_groups({name: ", ".join(list(every)[:MOST_NAMES])}))
    return captures


def _tried_remedies(entry: Entry, log: str) -> frozenset[str]:
    """The fixes whose settings, all those of a command, the log shows as applied."""
    found = set()
    for text in entry.change:
        parts = text.split("`")
        commands = [*parts[1::2], *(one for part in parts[::2] for one in _VARIABLE.findall(part))]
        settings = (_SETTING.findall(command) for command in commands if not _PLACEHOLDER.search(command))
        if any(one and all(_is_set(setting, log) for setting in one) for one in settings):
            found.add(text)
    return frozenset(found)


def _is_set(setting: str, log: str) -> bool:
    at = log.find(setting)
    return at >= 0 and not log[at + len(setting) : at + len(setting) + 1].strip(" \t\r\n'\"`,;)]")


def _present_groups(groups: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text.strip()[:LONGEST_CAPTURE] for name, text in groups.items() if text}
