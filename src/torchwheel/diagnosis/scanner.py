"""Find the first cause in a log of any size, in one pass and with bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from torchwheel.diagnosis import cmake_messages
from torchwheel.diagnosis.causes import Stop, first_cause
from torchwheel.diagnosis.cmake_messages import CMakeMessage, is_status, read_message
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
    ANNOUNCING,
    SAYS,
    STOPPED,
    Diagnosis,
    Entry,
    Pattern,
    Recognised,
    Severity,
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
    read_classes,
)
from torchwheel.diagnosis.grammar import form_needles as grammar_needles
from torchwheel.diagnosis.languages import normalise_line
from torchwheel.diagnosis.places import NEARBY_LINES, Place, places_in
from torchwheel.diagnosis.prefilter import Hit, Prefilter

ERRORS_KEPT = 5
"""Maximum classes of errors to keep, besides the catalogue's entries."""
LINES_PER_NEEDLE = 20_000
LEAST_WORK, BYTES_FOR_ONE_WORK, MOST_WORK = 12_000, 80, 100_000
"""Bounds of the time for a log: one unit is a line in which something is looked for."""
_WORK_OF_CLASSIFYING = 5
_LENGTH_OF_ONE = 250
"""A longer line costs as much as several."""
_WORK_OF_CONTEXT = 10
# Searching a line for hundreds of entries costs as much as many lines.
_CHARACTERS_FOR_ONE_WORK = 10_000
STOPS_KEPT = 1_000
LONGEST_CAPTURE = 160
MOST_NAMES = 5
"""Maximum names of one kind, such as undefined symbols, to list."""
HEAD_BYTES = 1 << 16
"""Bytes of a log's beginning to search for facts, because it shows the commands."""
FAILURE = "Failed to build "
"""The last message of pip, build and uv."""
VERDICT_LINES = 3
"""Lines of the verdict: pip lists the packages that were built, then those that were not."""
TAIL_LINES = 200
"""Lines of a log's end in which words of success are looked for."""
HINT_LINES = 2
"""Lines below an error in which the tool may say what to do."""
LAST_LINES = 8
"""Lines of a log without a failure to show."""

_VERDICTS = settling_needles() | {FAILURE}
_ERROR_NEEDLES = frozenset({"rror", "error", "erro"})
_WARNING_OPTION = re.compile(r"-W(?:no-)?error(?:=[\w+-]{1,60})?(?!\S)")
_END_OF_COMPILATION = re.compile(
    r"^(?:compilation terminated|\d{1,9} (?:errors?|warnings? and \d{1,9} errors?) generated|collect2|FAILED: "
    r"|ninja: build|g?make[\[:])"
)
_CHECKED_OUT = re.compile(r"Submodule path '[^']+': checked out ")
"""What git says where a second attempt helped."""


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


class _Scan:
    """The state after the windows read so far."""

    def __init__(self, known: tuple[Entry, ...]) -> None:
        self._by_needle: dict[str, list[tuple[int, Entry, Pattern]]] = {}
        for number, (entry, pattern) in enumerate((e, p) for e in known for p in e.patterns):
            self._by_needle.setdefault(pattern.needle, []).append((number, entry, pattern))
        self._order = {entry.id: number for number, entry in enumerate(known)}
        self._needles = frozenset(grammar_needles())
        needles = [*self._by_needle, *self._needles, *cmake_messages.NEEDLES]
        self._prefilter = Prefilter(needles, LINES_PER_NEEDLE, _VERDICTS)
        self._found, self._settled = _Found(), _Found()
        self._success_line = 0
        self._work = 0
        self._passed_over = 0
        self._message: CMakeMessage | None = None
        self._lines = self._bytes = 0
        self._tail: tuple[TailLine, ...] = ()
        self._head = b""
        self._is_text = self._is_empty = True

    def count_bytes(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if not self._bytes:
                self._is_text = is_text(chunk)
            self._head += chunk[: HEAD_BYTES - len(self._head)]
            self._is_empty = self._is_empty and chunk.isspace()
            self._bytes += len(chunk)
            yield chunk

    def read(self, window: Window) -> None:
        for place in places_in(window, self._worth_a_look(window.block)):
            self._heed_verdict(place)
            self._passed_over += not self._process(place)
        self._lines = window.last_line
        self._tail = window.tail(TAIL_LINES)

    def _worth_a_look(self, block: bytes) -> Iterator[Hit]:
        """The lines with needles; after the limit, only those with the verdict of a build."""
        for hit in self._prefilter.find_hits(block):
            if self._has_room() or not _VERDICTS.isdisjoint(hit.needles):
                yield hit
            else:
                self._passed_over += 1

    def _has_room(self, cost: int = 1) -> bool:
        limit = max(LEAST_WORK, self._bytes // BYTES_FOR_ONE_WORK)
        return self._work + cost <= min(limit, MOST_WORK)

    def _spend(self, cost: int) -> bool:
        """Whether so much work may still be done; then it counts as done."""
        allowed = self._has_room(cost)
        self._work += cost
        return allowed

    def _heed_verdict(self, place: Place) -> None:
        """Drop earlier findings after a successful build, unless it was one of several packages."""
        if settles(place.text, place.hit.needles):
            self._settled, self._found = self._found, self._found.after_success()
            self._success_line = place.number
        if FAILURE in place.hit.needles and place.number - self._success_line <= VERDICT_LINES:
            self._found = self._settled.merged_with(self._found)

    def _process(self, place: Place) -> bool:
        """Look for entries and classes in a line; return whether there was room for it."""
        message = self._message_of(place)
        is_inside = message is not None and place.number != message.numbers[0]
        text = message.paragraph_at(place.number)[:LONGEST_TEXT] if message and is_inside else place.text
        english = normalise_line(text)
        # The needles of the line are known; the translated or joined text may have others.
        needles = place.hit.needles if english == place.text else [n for n in self._by_needle if n in english]
        rows = sorted(row for needle in needles for row in self._by_needle.get(needle, ()))
        if not self._spend(1 + len(rows) * len(english) // _CHARACTERS_FOR_ONE_WORK):
            return False
        matches: dict[str, tuple[Entry, re.Match[str]]] = {}
        for _, entry, pattern in rows:
            if entry.id not in matches and (match := pattern.regex.search(english)):
                matches[entry.id] = entry, match
        for entry, match in matches.values():
            self._recognise(place, entry, match, message)
        if (message is not None and not message.is_error) or not self._may_have_a_form(place):
            return True
        cost = 1 + min(ESCAPED_LINES, place.text.count(ESCAPED_LINE_END)) + len(place.text) // _LENGTH_OF_ONE
        if not self._spend(cost * _WORK_OF_CLASSIFYING):
            return False
        self._classify(place, message)
        return True

    def _message_of(self, place: Place) -> CMakeMessage | None:
        """The CMake message that the line is part of."""
        if "CMake " in place.text and self._has_room():
            message = read_message(place.line, place.lines_below())
            if message is not None:
                self._message = message
                self._work += len(message.lines) // _WORK_OF_CONTEXT
        return self._message if self._message is not None and self._message.contains(place.number) else None

    def _may_have_a_form(self, place: Place) -> bool:
        """Whether more than compiler options, such as -Werror=… in every command of a verbose log, mentions errors."""
        needles = self._needles.intersection(place.hit.needles)
        if not needles or self._found.has_enough_classes:
            return False
        return not needles <= _ERROR_NEEDLES or "rro" in _WARNING_OPTION.sub("", place.text)

    def _classify(self, place: Place, message: CMakeMessage | None) -> None:
        found = classify(place.text, place.nearby, place.after, in_cmake_error=message is not None)
        if found is None or found.role is Role.NOISE:
            return
        stopped = found.role is Role.STOPPED
        if stopped:
            is_harmless = place.is_caught or (message is None and place.is_probe)
            if is_harmless and _END_OF_COMPILATION.match(place.text.lstrip()):
                return
            self._found.add_stop(Stop(place.number, found.comes_first))
        elif is_status(place.text):
            return
        captures, error_class = dict(found.captures), found.error_class
        if stopped:
            if self._found.has_stopped:
                return
            words = place.last_words(comes_first=found.comes_first)
            error_class = SAYS if words else STOPPED
            captures["message"] = words
        entry = read_classes()[error_class]
        otherwise = {name: fill_captures(text, captures) for name, text in entry.otherwise.items()}
        severity = _judge_severity(place, message, found)
        self._found.add(
            _event(entry, {**otherwise, **captures}, place, message, severity, announces=found.announces)
        )

    def _recognise(
        self, place: Place, entry: Entry, match: re.Match[str], message: CMakeMessage | None
    ) -> None:
        if self._found.has_counted(entry):
            return
        nearby = place.nearby() if entry.context or entry.details else ()
        if entry.context and not self._spend(_WORK_OF_CONTEXT):
            return
        if not all(any(regex.search(line) for line in nearby) for regex in entry.context):
            return
        captures = {**entry.otherwise, **_find_details(entry, nearby), **_present_groups(match.groupdict())}
        retried = is_noise(place.text, place.nearby, place.after)
        if retried and any(map(_CHECKED_OUT.match, place.after())):
            return
        severity, announces = _judge_severity(place, message, None), entry.id in ANNOUNCING
        event = _event(entry, captures, place, message, severity, announces=announces)
        self._found.add(event, retried=retried)

    def diagnosis(self, facts: Facts | None) -> Diagnosis:
        def key(one: Recognised) -> tuple[int, int]:
            return one.line.number, self._order.get(one.entry.id, len(self._order))

        events = sorted(self._found.all_events(), key=key)
        ended = last_ending(self._tail)
        cause = first_cause(events, self._found.stops, self._lines, ended)
        if cause is not None:
            head = self._head.decode("utf-8", "replace")
            log = "\n".join([head, *(line.text for line in cause.excerpt)])
            # What follows the error is advice, or the tool's own next step.
            before = [line.text for line in cause.excerpt if line.number < cause.line.number]
            shown = "\n".join([*head.splitlines()[: cause.line.number - 1], *before])
            own = [line.text for line in cause.excerpt if 0 <= line.number - cause.line.number <= HINT_LINES]
            cause = replace(
                cause,
                facts=replace(facts or read_facts(log), shown=shown),
                hints=() if cause.entry.rank else tuple(dict.fromkeys(tool_hints(own)))[:1],
            )
        return Diagnosis(
            cause=cause,
            others=tuple(one for one in events if _stands_beside(one, cause, events)),
            lines=self._lines,
            bytes=self._bytes,
            last_lines=tuple(one.line for one in self._tail if one.line.text)[-LAST_LINES:],
            ended_well=ended > 0,
            passed_over=self._passed_over,
            is_text=self._is_text,
            is_empty=self._is_empty,
        )


def _event(
    entry: Entry,
    captures: Mapping[str, str],
    place: Place,
    message: CMakeMessage | None,
    severity: Severity,
    *,
    announces: bool = False,
) -> Recognised:
    return Recognised(
        entry,
        freeze(captures),
        place.line,
        place.excerpt(message),
        count=1,
        severity=severity,
        announces=announces,
        goes_on=place.goes_on,
        message=message.numbers if message else None,
    )


def _judge_severity(place: Place, message: CMakeMessage | None, found: Classified | None) -> Severity:
    """Judge a line with an entry of the catalogue, or with a class of errors."""
    if found is not None and found.role is Role.STOPPED:
        return Severity.STOPPED
    if found is None and (is_status(place.text) or (message is not None and not message.is_error)):
        return Severity.NOTE
    is_probe = message is None and place.is_probe
    if place.is_caught and (found is None or not (found.consequence or is_probe)):
        return Severity.NOTE if found else Severity.SURVIVED
    if is_probe:
        return Severity.PROBE
    if found is not None and found.consequence:
        return Severity.CONSEQUENCE
    # What CMake calls an error ends its run; a traceback may have been caught, and a script may do without a program.
    if found is None or message is not None or found.error_class == "cmake-error":
        return Severity.ERROR
    survivable = found.is_general or found.error_class == "command-missing" or found.tool.startswith("Python")
    return Severity.SAID if survivable else Severity.ERROR


def _stands_beside(one: Recognised, cause: Recognised | None, events: Sequence[Recognised]) -> bool:
    """Whether an event is worth a line beside the cause."""
    if one.severity is Severity.STOPPED:
        return False
    if cause is None:
        return True
    if (one.entry.id, one.title) == (cause.entry.id, cause.title):
        return False
    if one.entry.rank:
        return True
    # A class of errors near an entry, or in one message with the cause, means the same failure.
    message = one.captures.get("message", "")
    announces = one.severity is Severity.SAID and message and cause.line.text.strip().startswith(message)
    is_near = any(e.entry.rank and abs(e.line.number - one.line.number) <= NEARBY_LINES for e in events)
    return not (announces or is_near or (one.message is not None and one.message == cause.message))


@dataclass
class _Found:
    """The findings in a part of the log.

    Attributes:
        events: by id and, of a class, title; the first of each that counts.
        retried: entries in lines about attempts that are retried; the last line of each.
        stops: lines that report a failed step.
    """

    events: dict[tuple[str, str], Recognised] = field(default_factory=dict)
    retried: dict[str, Recognised] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)

    @property
    def has_enough_classes(self) -> bool:
        classes = (one for one in self.events.values() if one.severity is not Severity.STOPPED)
        return sum(not one.entry.rank for one in classes) >= ERRORS_KEPT

    @property
    def has_stopped(self) -> bool:
        return any(one.severity is Severity.STOPPED for one in self.events.values())

    def add_stop(self, stop: Stop) -> None:
        if len(self.stops) < STOPS_KEPT:
            self.stops.append(stop)

    def has_counted(self, entry: Entry) -> bool:
        """Count another line of an entry, if it has an event that counts."""
        known = self.events.get((entry.id, ""))
        if known is None or known.severity in (Severity.NOTE, Severity.SURVIVED):
            return False
        self.events[entry.id, ""] = replace(known, count=known.count + 1)
        return True

    def add(self, event: Recognised, *, retried: bool = False) -> None:
        key = event.entry.id, "" if event.entry.rank else event.title
        if retried:
            self.retried[event.entry.id] = event
        elif key in self.events and not event.entry.rank:
            self.events[key] = replace(self.events[key], count=self.events[key].count + 1)
        else:
            self.events[key] = event

    def all_events(self) -> Iterator[Recognised]:
        """The events, and the retried entries that lead to a failure soon, so that retrying did not help."""
        yield from self.events.values()
        for id, one in self.retried.items():
            if (id, "") not in self.events and any(
                0 < later.line.number - one.line.number <= NEARBY_LINES
                and later.entry.id in {id, *one.entry.explains}
                for later in self.events.values()
            ):
                yield one

    def after_success(self) -> _Found:
        """The findings that remain after a successful build: failures in use, not of the build."""
        return _Found({key: one for key, one in self.events.items() if not one.entry.phase.of_build})

    def merged_with(self, later: _Found) -> _Found:
        return _Found(
            {**later.events, **self.events},
            {**self.retried, **later.retried},
            [*self.stops, *later.stops],
        )


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


def _present_groups(groups: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text.strip()[:LONGEST_CAPTURE] for name, text in groups.items() if text}
