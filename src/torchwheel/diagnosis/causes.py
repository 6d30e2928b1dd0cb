"""Find the event of a log that is the cause.

It is the first event that stops the build, unless a later one of the same step is known to explain it
(``explains.toml``).
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from torchwheel.diagnosis.failures import GENERAL, SAYS, Effect, Recognised

STEP_LINES = 30
"""Lines that may belong to one step's output; parallel jobs mix theirs."""
SURVIVABLE = frozenset(
    {
        "command-missing",
        "launcher-failed",
        "gpu-module-not-loaded",
        "dubious-ownership",
        "numpy-1-and-2-mixed",
    }
)
"""Ids of what a script may do without."""
PROBE_LINES = 10
"""Lines between the compiler's answer to a probe and what the setup makes of it."""
OUTPUT_LINES = 200
"""Lines of a step's own output below the line that reports its failure, as pip writes it."""
_ENTRY = 2
_CAUSE = 3


class Stop(NamedTuple):
    """A line that reports a failed step, whose output follows it if it comes first."""

    line: int
    comes_first: bool


def first_cause(
    events: Sequence[Recognised], stops: Sequence[Stop], lines: int, ended: int
) -> Recognised | None:
    """Find the event that explains the failure.

    Args:
        stops: in the order of their lines.
        ended: the line with which the log ends well, 0 for none.
    """
    ordered = sorted(events, key=lambda one: (_start_line(one), one.line.number))
    messages = [max(group, key=_specificity) for _, group in groupby(ordered, key=_start_line)]
    log = _Log(messages, stops)
    # A hint says nothing beside what is known, or beside an error of the same step.
    log = _Log([one for one in messages if one.entry.rank != 1 or not log.is_idle_hint(one)], stops)
    for effect in Effect:
        found = [one for one in log.messages if log.actual_effect(one) is effect]
        if effect is Effect.SURVIVED:
            # The last one may not have been survived, unless the log ends well.
            found = [one for one in found[-1:] if one.line.number > ended]
        if not found:
            continue
        first = found[0]
        if effect is Effect.STOPPED and "above" in first.captures:
            # The last words of the process that ended first: others may have gone on for a while.
            survived = [one for one in log.messages if log.actual_effect(one) is Effect.SURVIVED]
            first = next((one for one in reversed(survived) if one.line.number < first.line.number), first)
        # The log ends with a probe at which the tool stopped.
        ends = effect is Effect.PROBE and lines - first.line.number <= STEP_LINES and not ended
        if effect not in (Effect.PROBE, Effect.NOTE) or stops or ends:
            return log.find_explanation(first)
    return None


def note_survived(events: Iterable[Recognised], last_step: int) -> Iterator[Recognised]:
    """Yield the events, with what a script did without as notes: it went on to count its steps, and none failed."""
    for one in events:
        is_survived = one.entry.id in SURVIVABLE and not one.entry.rank and one.goes_on
        yield replace(one, effect=Effect.NOTE) if is_survived and one.line.number < last_step else one


@dataclass(frozen=True)
class _Log:
    """The messages of a log, and the ends of its steps."""

    messages: Sequence[Recognised]
    stops: Sequence[Stop]

    def actual_effect(self, one: Recognised) -> Effect:
        """Return the effect in context: a generic error counts if the step fails, a missing product if first."""
        if one.effect is Effect.SAID and self._stops_at(one):
            return Effect.ERROR
        if one.effect is Effect.SAID and (one.goes_on or self._next_failure(one)):
            return Effect.SURVIVED
        if one.effect is Effect.CONSEQUENCE and not self._follows_a_failure(one):
            return Effect.ERROR
        return one.effect

    def is_idle_hint(self, hint: Recognised) -> bool:
        effects = ((other, self.actual_effect(other)) for other in self.messages)
        return any(
            effect not in (Effect.NOTE, Effect.SURVIVED)
            if other.entry.rank >= _ENTRY
            else other.entry.rank == 0 and effect is Effect.ERROR and self._in_one_step(hint, other)
            for other, effect in effects
        )

    def find_explanation(self, first: Recognised) -> Recognised:
        """Return the event that is known to explain ``first``, or ``first`` itself."""
        if first.entry.id in GENERAL:
            # The setup stops at the answer to its last question.
            lines = range(first.line.number - PROBE_LINES, first.line.number)
            answers = [one for one in self.messages if one.effect is Effect.PROBE]
            first = next((one for one in reversed(answers) if one.line.number in lines), first)
        those = (one for one in self.messages if self._explains(one, first))
        found = max(those, key=lambda one: (self._in_one_step(first, one), one.entry.rank), default=first)
        if first.entry.id in found.entry.shown_at:
            return replace(found, line=first.line, excerpt=first.excerpt, message=first.message)
        return found

    def _explains(self, one: Recognised, first: Recognised) -> bool:
        is_known_to = first.entry.id in one.entry.explains
        distance = one.line.number - first.line.number
        if self.actual_effect(one) in (Effect.NOTE, Effect.SURVIVED) or (
            one.effect is Effect.SAID and -STEP_LINES <= distance < 0
        ):
            # The configuration may explain a compile much later, and a loader's words the crash below them.
            shared = first.captures.get(one.entry.explains.get(first.entry.id, ""))
            return is_known_to and (shared is None or shared in one.captures.values())
        return 0 < distance <= STEP_LINES and (
            is_known_to
            or (_may_explain(one, first) and self._in_one_step(first, one))
            or _is_quoted(one, first)
        )

    def _in_one_step(self, first: Recognised, later: Recognised) -> bool:
        at = bisect_left(self.stops, (first.line.number + 1,))
        return all(stop.line >= later.line.number for stop in self.stops[at : at + 1])

    def _stops_at(self, one: Recognised) -> bool:
        """Whether the step fails before another error."""
        number, another = one.line.number, self._next_failure(one)
        # What follows a step that is named first is that step's own output.
        at = bisect_left(self.stops, (number,))
        below = (stop.line for stop in self.stops[at : at + STEP_LINES] if not stop.comes_first)
        following = next(below, sys.maxsize)
        if following - number <= STEP_LINES and (another is None or following < another):
            return True
        above = self.stops[max(0, at - 3) : at]
        return any(stop.comes_first and number - stop.line <= OUTPUT_LINES for stop in above)

    def _next_failure(self, one: Recognised) -> int | None:
        """The line of the next error that ``one`` has not led to."""
        for other in self.messages:
            if other.line.number > one.line.number:
                if _is_independent(other, one):
                    return other.line.number
                if _names_program(other, one):
                    break
        return None

    def _follows_a_failure(self, one: Recognised) -> bool:
        effects = (Effect.ERROR, Effect.SAID, Effect.CONSEQUENCE)
        failures = [other.line.number for other in self.messages if other.effect in effects]
        stops = [stop.line for stop in self.stops if not stop.comes_first]
        return any(number < one.line.number for number in (*failures, *stops))


def _is_independent(later: Recognised, one: Recognised) -> bool:
    """Whether a later error is one of its own: of a tool, or of what went on, or of what needed no such program."""
    if later.effect is not Effect.SAID and later.entry.id != SAYS:
        return later.effect is Effect.ERROR
    needs_none = one.captures.get("program", "") != "" and not _names_program(later, one)
    # The words of a step that stopped are the weaker evidence: both must speak for them.
    return one.goes_on and needs_none if later.entry.id == SAYS else one.goes_on or needs_none


def _names_program(later: Recognised, one: Recognised) -> bool:
    """Whether a later error is about the program that ``one`` did not find."""
    program = one.captures.get("program", "")
    said = f"{later.line.text} {later.captures.get('message', '')}"
    return program != "" and re.search(rf"{re.escape(program)}|\b127\b|\bexit_code\b", said) is not None


def _may_explain(one: Recognised, first: Recognised) -> bool:
    is_its_kind = first.entry.id in one.entry.may_explain or 0 < first.entry.rank < one.entry.rank == _CAUSE
    return is_its_kind and one.entry.rank >= _ENTRY


def _is_quoted(one: Recognised, announcing: Recognised) -> bool:
    """Whether an error is in another program's output that is passed on; then it is part of CMake's message."""
    is_error = one.effect in (Effect.ERROR, Effect.SAID) and not one.announces
    return is_error and announcing.announces and announcing.message is None


def _specificity(one: Recognised) -> int:
    """Rank an event: entries of the catalogue and specific errors before what only announces a program's output."""
    if one.entry.id == "cmake-error":
        return 0
    if one.entry.rank:
        return 4 if one.announces else 5 + one.entry.rank
    if one.effect is not Effect.ERROR:
        return 1
    return 2 if one.announces else 3 if one.entry.id in GENERAL else 5


def _start_line(one: Recognised) -> int:
    return one.message[0] if one.message else one.line.number
