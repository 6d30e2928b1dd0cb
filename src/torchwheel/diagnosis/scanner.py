"""Find the first cause in a log of any size, in one pass and with bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from torchwheel.diagnosis import cmake_messages
from torchwheel.diagnosis.causes import SURVIVABLE, Stop, first_cause, note_survived
from torchwheel.diagnosis.cmake_messages import LONGEST_MESSAGE, CMakeMessage, is_status, read_message
from torchwheel.diagnosis.decoding import (
    LONGEST_TEXT,
    Window,
    is_text,
    line_blocks,
    read_chunks,
    read_windows,
)
from torchwheel.diagnosis.endings import last_ending, last_step, read_endings, settles
from torchwheel.diagnosis.facts import Facts, read_facts
from torchwheel.diagnosis.failures import (
    SAYS,
    STOPPED,
    Diagnosis,
    Effect,
    LogLine,
    Phase,
    Recognised,
    fill_captures,
)
from torchwheel.diagnosis.fixes import tool_hints
from torchwheel.diagnosis.grammar import (
    ESCAPED_LINE_END,
    ESCAPED_LINES,
    Classified,
    Form,
    Role,
    catalogue_forms,
    classify,
    form_needles,
    is_noise,
    is_stop,
    read_causes,
)
from torchwheel.diagnosis.languages import normalise_line
from torchwheel.diagnosis.packages import package_at_fault
from torchwheel.diagnosis.places import BELOW_LINES, LAST_OF_COMPILER, NEARBY_LINES, Place, places_in
from torchwheel.diagnosis.prefilter import Hit, Prefilter
from torchwheel.diagnosis.tracebacks import explain_exception

ERRORS_KEPT = 5
"""Maximum classes of errors to keep, besides the catalogue's entries."""
LEAST_WORK, BYTES_FOR_ONE_WORK, MOST_WORK = 12_000, 80, 100_000
"""Bounds of the time for a log: one unit is a line in which something is looked for."""
_WORK_OF_CLASSIFYING = 5
_LENGTH_OF_ONE = 250
"""A longer line costs as much as several."""
_WORK_OF_CONTEXT = 10
# Searching a line for hundreds of entries costs as much as many lines.
_CHARACTERS_FOR_ONE_WORK = 10_000
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
LINES_OF_PACKAGE = 40
"""Lines above an event that may name the package that it is of."""
LINES_OF_WORDS = 12
"""Lines below an event in which it may say what it is: Triton shows the source first."""
LAST_LINES = 8
"""Lines of a log without a failure to show."""

_VERDICTS = frozenset(one.needle for one in read_endings() if one.settles) | {FAILURE}
_ERROR_NEEDLES = frozenset({"rror", "error", "erro"})
_WARNING_OPTION = re.compile(r"-W(?:no-)?error(?:=[\w+-]{1,60})?(?!\S)")
_END_OF_COMPILATION = re.compile(rf"{LAST_OF_COMPILER.pattern}|^(?:FAILED: |ninja: build|g?make[\[:])")
_INSTALLS = re.compile(r"\b(?:Building|Collecting|install)\b")
_SHORT_NAME = 5
"""Characters of a capture that two unrelated failures may share, as `3.12` or `torch`."""
_OF_DOWNLOADER = re.compile(r"(?:curl: \(|wget: )")
_OF_MAKE = re.compile(r"g?make[\[:]")

_CHECKED_OUT = re.compile(r"Submodule path '[^']+': checked out ")
"""What git says where a second attempt helped."""


def diagnose(
    stream: BinaryIO | Iterable[bytes], known: Sequence[Form] | None = None, facts: Facts | None = None
) -> Diagnosis:
    """Diagnose a log: read it to its end and find the first cause (``causes.first_cause``).

    Args:
        stream: an open binary file or pipe, or chunks of bytes.
        known: the catalogue's forms; the shipped ones by default.
        facts: the system and the builder, if they are known; else the log shows them.
    """
    scan = _Scan(catalogue_forms() if known is None else known)
    for window in read_windows(line_blocks(scan.count_bytes(read_chunks(stream)))):
        scan.read(window)
    return scan.diagnosis(facts)


class _Scan:
    """The state after the windows read so far."""

    def __init__(self, known: Sequence[Form]) -> None:
        self._known = known
        self._needles = frozenset(form_needles())
        of_known = (form.needle for form in known)
        self._prefilter = Prefilter({*of_known, *self._needles, *cmake_messages.NEEDLES, *_VERDICTS})
        self._found, self._settled = _Found(), _Found()
        self._survived: set[tuple[str, str]] = set()
        self._success_line = 0
        self._work = 0
        self._passed_over = 0
        self._message: CMakeMessage | None = None
        self._lines = self._bytes = 0
        self._tail: Sequence[tuple[str, LogLine]] = ()
        self._head = b""
        self._is_empty = True

    def count_bytes(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
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
        # A log may repeat one message a million times: where no room comes back, other lines are not even searched for.
        for hit in self._prefilter.find_hits(block, _VERDICTS if self._work >= MOST_WORK else ()):
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
        if settled := settles(place.text, place.hit.needles):
            # A build settles no failures in use, and what stopped another package may explain that it is missing.
            phases = () if settled == "all" else (Phase.IMPORT, Phase.RUNTIME)
            rest = {
                key: one if one.entry.phase in phases else replace(one, effect=Effect.NOTE)
                for key, one in self._found.events.items()
                if one.entry.phase in phases or one.captures.get("building", place.text) not in place.text
            }
            self._settled, self._found = self._found, _Found(rest)
            self._success_line = place.number
        if FAILURE in place.hit.needles and place.number - self._success_line <= VERDICT_LINES:
            events = {**self._found.events, **self._settled.events}
            self._found = _Found(events, [*self._settled.stops, *self._found.stops])

    def _process(self, place: Place) -> bool:
        """Look for entries and classes in a line; return whether there was room for it."""
        self._find_message(place)
        if not self._find_entries(place):
            return False
        if place.is_of_warning or not self._may_have_a_form(place):
            return True
        cost = 1 + min(ESCAPED_LINES, place.text.count(ESCAPED_LINE_END)) + len(place.text) // _LENGTH_OF_ONE
        if not self._spend(cost * _WORK_OF_CLASSIFYING):
            return False
        found = classify(place.text, place.nearby, place.after, in_cmake_error=place.message is not None)
        if found is None:
            return True
        if found.form.id == "cmake-error":
            found = _classify_paragraphs(place) or found
        if found.form.role is Role.STOPPED:
            self._note_stop(place, found)
        elif found.form.role is Role.ERROR and not is_status(place.text):
            self._record(place, found)
        return True

    def _find_entries(self, place: Place) -> bool:
        """Look for entries of the catalogue, of which the first form of each counts; return whether there was room."""
        seen: set[str] = set()
        for text in place.whole_texts():
            english = normalise_line(text)
            forms = [form for form in self._known if form.needle in english]
            if not self._spend(1 + len(forms) * len(english) // _CHARACTERS_FOR_ONE_WORK):
                return False
            for form in forms:
                match = None if form.id in seen else form.regex.search(english)
                if match is None:
                    continue
                seen.add(form.id)
                if self._found.has_counted((form.id, "")) or (
                    form.context and not self._spend(_WORK_OF_CONTEXT)
                ):
                    continue
                captures = form.complete(match, place.nearby, place.after)
                if captures is not None:
                    self._record(place, Classified(form, captures))
            if seen:
                break
        return True

    def _find_message(self, place: Place) -> None:
        if "CMake " in place.text and self._has_room():
            # Most lines with a needle are none of CMake's, and their window is not split for it.
            below = place.window.lines(place.number + 1, place.number + LONGEST_MESSAGE)
            if message := read_message(place.line, below):
                self._message = message
                self._work += len(message.lines) // _WORK_OF_CONTEXT
        if self._message is not None and self._message.contains(place.number):
            place.message = self._message

    def _may_have_a_form(self, place: Place) -> bool:
        """Whether more than compiler options, such as -Werror=… in every command of a verbose log, mentions errors."""
        needles = self._needles.intersection(place.hit.needles)
        events = (one for one in self._found.events.values() if one.effect is not Effect.STOPPED)
        if not needles or sum(not one.entry.rank for one in events) >= ERRORS_KEPT:
            return False
        return not needles <= _ERROR_NEEDLES or "rro" in _WARNING_OPTION.sub("", place.text)

    def _note_stop(self, place: Place, found: Classified) -> None:
        text = place.text.lstrip()
        # A warning about a compiler's failure settles it, and not that of make, which stops at it.
        settled = place.is_probe or (place.is_caught and not _OF_MAKE.match(text))
        if settled and _END_OF_COMPILATION.match(text):
            return
        self._found.stops.append(Stop(place.number, found.form.comes_first))
        if not any(one.effect is Effect.STOPPED for one in self._found.events.values()):
            words = "" if "above" in found.captures else place.last_words(found.form.comes_first)
            form = replace(found.form, id=SAYS if words else STOPPED)
            self._record(place, Classified(form, {**found.captures, "message": words}))

    def _record(self, place: Place, found: Classified) -> None:
        if any(map(_CHECKED_OUT.match, place.after())):
            return
        id, caught = explain_exception(found.form.id, found.captures, place.above)
        entry = read_causes()[id]
        otherwise = {name: fill_captures(text, caught) for name, text in entry.otherwise.items()}
        captures = {**otherwise, **caught}
        key = entry.id, "" if entry.rank else entry.title_of(captures)
        if not entry.rank and self._found.has_counted(key):
            return
        effect, same = _judge_effect(place, found.form), (id, place.text.strip())
        if effect in (Effect.SURVIVED, Effect.NOTE) and place.is_caught:
            self._survived.add(same)
        elif same in self._survived and not any(is_stop(line.strip()) for line in place.after()):
            # A probe that failed before, in another run of the same script.
            effect = Effect.NOTE
        warned = self._found.events.pop(key, None)
        event = Recognised(
            entry,
            captures,
            place.line,
            place.excerpt(),
            count=1,
            effect=effect,
            goes_on=place.goes_on,
            message=place.message.numbers if place.message else None,
            below=place.after(LINES_OF_WORDS),
            package=package_at_fault(caught, (place.text, *place.above()[:LINES_OF_PACKAGE])),
        )
        # A warning of it, just above what it led to, says more.
        if (
            warned
            and warned.effect is Effect.SURVIVED
            and place.number - warned.line.number <= BELOW_LINES
            and all(caught.get(name, text) == text for name, text in warned.captures.items())
        ):
            captures |= warned.captures
            event = replace(event, captures=captures, line=warned.line, excerpt=warned.excerpt)
        self._found.events[key] = event

    def diagnosis(self, facts: Facts | None) -> Diagnosis:
        found = sorted(self._found.events.values(), key=lambda one: one.line.number)
        events = [*note_survived(found, 0 if self._found.stops else last_step(self._tail))]
        ended = last_ending(self._tail)
        cause = first_cause(events, self._found.stops, self._lines, ended)
        if cause is not None:
            number, head = cause.line.number, self._head.decode("utf-8", "replace")
            log = "\n".join([head, *(line.text for line in cause.excerpt)])
            # What follows the error is advice, or the tool's own next step.
            before = [line.text for line in cause.excerpt if line.number < number]
            shown = [*head.splitlines()[: number - 1], *before]
            own = [line.text for line in cause.excerpt if 0 <= line.number - number <= HINT_LINES]
            cause = replace(
                cause,
                facts=replace(facts or read_facts(log), shown="\n".join(shown)),
                package=cause.package
                or package_at_fault({}, ("", *filter(_INSTALLS.search, reversed(shown)))),
                hints=tuple(dict.fromkeys(tool_hints(own)))[:1] if cause.may_have_hints else (),
            )
        return Diagnosis(
            cause=cause,
            others=tuple(one for one in events if _stands_beside(one, cause, events)),
            lines=self._lines,
            bytes=self._bytes,
            last_lines=tuple(line for _, line in self._tail if line.text)[-LAST_LINES:],
            ended_well=ended > 0,
            passed_over=self._passed_over,
            is_text=is_text(self._head),
            is_empty=self._is_empty,
        )


def _classify_paragraphs(place: Place) -> Classified | None:
    """Classify what a message of CMake says below its headline in no line alone, because CMake wraps it."""
    for paragraph in place.message.paragraphs if place.message else ():
        lines = [line.text.strip() for line in paragraph]
        for text in (*lines, " ".join(lines)[:LONGEST_TEXT]):
            found = classify(text, place.nearby, place.after, in_cmake_error=True)
            if found is None or found.form.role is not Role.ERROR or found.form.is_general:
                continue
            # The scan itself stops at a line with a needle.
            is_read_itself = text in lines and any(needle in text for needle in form_needles())
            return None if is_read_itself else found
    return None


def _judge_effect(place: Place, form: Form) -> Effect:
    is_known = read_causes()[form.id].rank > 0
    if form.role is Role.STOPPED:
        return Effect.STOPPED
    is_noted = is_status(place.text) or place.is_of_warning
    if is_known and (is_noted or is_noise(place.text, place.nearby, place.after)):
        return Effect.NOTE
    if place.is_caught and (is_known or not (form.consequence or place.is_probe)):
        return Effect.SURVIVED if is_known else Effect.NOTE
    if place.is_probe:
        return Effect.PROBE
    if form.consequence:
        return Effect.CONSEQUENCE
    is_alone = form.id in SURVIVABLE or _OF_DOWNLOADER.match(place.text.lstrip()) is not None
    # What CMake calls an error ends its run; a traceback may have been caught, and a script may do without a program.
    is_of_cmake = place.message is not None or form.id == "cmake-error"
    survivable = form.is_general or is_alone or form.tool.startswith("Python")
    return Effect.SAID if survivable and not is_of_cmake else Effect.ERROR


def _stands_beside(one: Recognised, cause: Recognised | None, events: Sequence[Recognised]) -> bool:
    """Whether an event is worth a line beside the cause."""
    if one.effect is Effect.STOPPED:
        return False
    if cause is None:
        return True
    if one.effect in (Effect.NOTE, Effect.SURVIVED, Effect.PROBE):
        return False
    named = {text for text in cause.captures.values() if len(text) > _SHORT_NAME}
    if not (one.entry.rank or named.isdisjoint(one.captures.values())):
        return False
    if (one.entry.id, one.title) == (cause.entry.id, cause.title) or one.line.number == cause.line.number:
        return False
    if one.entry.rank:
        return True
    # A class of errors near an entry, or in one message with the cause, means the same failure.
    message = one.captures.get("message", "")
    announces = one.effect is Effect.SAID and message and cause.line.text.strip().startswith(message)
    is_near = any(e.entry.rank and abs(e.line.number - one.line.number) <= NEARBY_LINES for e in events)
    return not (announces or is_near or (one.message is not None and one.message == cause.message))


@dataclass
class _Found:
    """The findings in a part of the log.

    Attributes:
        events: by id and, of a class, title; the first of each that counts.
        stops: lines that report a failed step.
    """

    events: dict[tuple[str, str], Recognised] = field(default_factory=dict)
    stops: list[Stop] = field(default_factory=list)

    def has_counted(self, key: tuple[str, str]) -> bool:
        """Count another line of an entry, if it has an event that counts."""
        known = self.events.get(key)
        if known is None or known.effect in (Effect.NOTE, Effect.SURVIVED):
            return False
        self.events[key] = replace(known, count=known.count + 1)
        return True
