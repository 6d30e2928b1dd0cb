"""Which event of a log is the cause.

The first event of error severity is, unless a later one of the same step is known to explain it (``explains.toml``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from torchwheel.diagnosis.model import Recognised, Severity

STEP_LINES = 30
"""Lines of a step's output that are taken for one; parallel jobs mix theirs."""
_FAILURES = (Severity.ERROR, Severity.SAID, Severity.CONSEQUENCE)
_ANSWERS = (Severity.PROBE, Severity.NOTE)
_ENTRY = 2
_CAUSE = 3


@dataclass(frozen=True)
class Stop:
    """A line that tells of a failed step.

    Attributes:
        line: its number.
        comes_first: whether the step's output follows it.
    """

    line: int
    comes_first: bool


def first_cause(events: Sequence[Recognised], stops: Sequence[Stop], lines: int = 0) -> Recognised | None:
    """The event that explains the failure.

    Args:
        events: in any order.
        stops: in the order of their lines.
        lines: of the log.
    """
    messages = [_of_message(list(group)) for _, group in groupby(sorted(events, key=_place), key=_start)]
    if any(one.entry.rank >= _ENTRY for one in messages):
        messages = [one for one in messages if one.entry.rank != 1]
    log = _Log(messages, stops)
    for severity in Severity:
        first = next((one for one in messages if log.severity(one) is severity), None)
        # The log ends with a probe that the tool stopped at.
        ends = first is not None and severity is Severity.PROBE and lines - first.line.number <= STEP_LINES
        if first is not None and (severity not in _ANSWERS or stops or ends):
            return log.explained(first)
    return None


@dataclass(frozen=True)
class _Log:
    """The messages of a log, and where its steps end."""

    messages: Sequence[Recognised]
    stops: Sequence[Stop]

    def severity(self, one: Recognised) -> Severity:
        """An error in a tool's own words counts where the step fails, a missing product where nothing stands before."""
        if one.severity is Severity.SAID and self._stops_at(one):
            return Severity.ERROR
        if one.severity is Severity.CONSEQUENCE and not self._follows_a_failure(one):
            return Severity.ERROR
        return one.severity

    def explained(self, first: Recognised) -> Recognised:
        """The event that is known to explain ``first``, or ``first`` itself."""
        found = max(self._explaining(first), key=lambda one: one.entry.rank, default=None)
        if found is not None and first.entry.id in found.entry.shown_at:
            return replace(found, line=first.line, excerpt=first.excerpt, message=first.message)
        return first if found is None else found

    def _explaining(self, first: Recognised) -> Iterator[Recognised]:
        for one in self.messages:
            distance = one.line.number - first.line.number
            if one.severity is Severity.NOTE:
                # What was configured explains what is compiled much later.
                if first.entry.id in one.entry.explains:
                    yield one
            elif 0 < distance <= STEP_LINES and (
                first.entry.id in one.entry.explains
                or (_may_explain(one, first) and self._in_one_step(first, one))
                or _is_quoted(one, first)
            ):
                yield one

    def _in_one_step(self, first: Recognised, later: Recognised) -> bool:
        return not any(first.line.number < stop.line < later.line.number for stop in self._from(first))

    def _stops_at(self, one: Recognised) -> bool:
        """Whether the step fails before another error comes."""
        number = one.line.number
        following = next((stop.line for stop in self._from(one)), None)
        another = next(
            (
                other.line.number
                for other in self.messages
                if other.line.number > number and other.severity is Severity.ERROR
            ),
            None,
        )
        if (
            following is not None
            and following - number <= STEP_LINES
            and (another is None or following < another)
        ):
            return True
        at = bisect_left(self.stops, number, key=_line)
        return any(
            stop.comes_first and number - stop.line <= STEP_LINES for stop in self.stops[max(0, at - 3) : at]
        )

    def _follows_a_failure(self, one: Recognised) -> bool:
        number = one.line.number
        return any(stop.line < number and not stop.comes_first for stop in self.stops) or any(
            other.line.number < number and other.severity in _FAILURES for other in self.messages
        )

    def _from(self, one: Recognised) -> Sequence[Stop]:
        return self.stops[bisect_left(self.stops, one.line.number, key=_line) :]


def _may_explain(one: Recognised, first: Recognised) -> bool:
    if one.entry.rank < _ENTRY:
        return False
    if one.entry.id == first.entry.id:
        return True
    return first.entry.id in one.entry.may_explain or 0 < first.entry.rank < one.entry.rank == _CAUSE


def _is_quoted(one: Recognised, announcing: Recognised) -> bool:
    """Whether an error stands in another program's output that is passed on; of CMake's messages it is a part."""
    return (
        announcing.announces
        and announcing.message is None
        and one.severity is Severity.ERROR
        and not one.announces
    )


def _of_message(events: Sequence[Recognised]) -> Recognised:
    """The event that says most of the message that they are part of: what an entry knows, then what is quoted."""
    return max(events, key=lambda one: (one.entry.rank, _says(one)))


def _says(one: Recognised) -> int:
    if one.entry.id == "cmake-error":
        return 0
    return 1 + (one.severity is Severity.ERROR) + (one.severity is Severity.ERROR and not one.announces)


def _place(one: Recognised) -> tuple[int, int]:
    return _start(one), one.line.number


def _start(one: Recognised) -> int:
    return one.message[0] if one.message else one.line.number


def _line(stop: Stop) -> int:
    return stop.line
