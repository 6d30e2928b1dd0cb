"""A line of a log that may report a failure, and what the lines around it make of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, dropwhile, pairwise, takewhile, zip_longest
from pathlib import Path

from torchwheel.diagnosis.causes import STEP_LINES
from torchwheel.diagnosis.cmake_messages import CMakeMessage, count_indentation
from torchwheel.diagnosis.decoding import LONGEST_TEXT, Window, clean_text
from torchwheel.diagnosis.endings import read_work
from torchwheel.diagnosis.failures import LogLine
from torchwheel.diagnosis.grammar import Role, classify, is_stop
from torchwheel.diagnosis.prefilter import Hit
from torchwheel.diagnosis.tracebacks import TRACEBACK_LINES
from torchwheel.system.toml import read_toml

EXCERPT_LINES = 4
"""Lines shown on each side of a recognised line."""
MOST_LINES = 60
"""Maximum lines of a message to show on each side."""
NEARBY_LINES = STEP_LINES
"""Lines on each side to search for context and details; many, because parallel jobs mix their output."""
BELOW_LINES = 8
"""Lines below a match that may cancel or complete it: git reports a retry three lines later."""
SHORTEST_FILLED = 60
"""Fewest columns of a line that goes on in the next one."""
WARNING_LINES = 6
"""Lines of a warning of Python's below its first line."""

_OF_FAILURE = re.compile(
    r"(?i)error|exception(?! for this dir)|traceback|fail|fatal|killed|abort|stopp|exit|terminated|\*\*\*"
    r"|note: |hint: |help: |\[end of output\]|^\s*[\xd7\u2570\u2502\u251c]"
)
_IS_WARNING = re.compile(r"^\S+:\d+: \w*Warning:\s*$")
_LOGGED_WARNING = re.compile(
    r"^\s*(?:\[?WARN(?:ING)?\b(?!: exit code )|##\[warning\]|configure: (?:WARNING|building without))"
)
_SOURCE_OF_WARNING = re.compile(r"^\s*warnings\.warn\(")
_LIBRARY = re.compile(r"(?<!\S)-l(\w{2,40})\b|\b(\w{2,40})\.lib\b")
_FALLS_BACK = re.compile(r"\bfalling back (?:to|on)\b")
_TELLS = (_OF_FAILURE, _LOGGED_WARNING, _FALLS_BACK)
_EXCEPTION = re.compile(r"^\s*\[?(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b")
_TRACEBACK = re.compile(r"^\s*Traceback \(most recent")
_IGNORED = "Exception ignored in"
_WARNS = re.compile(
    r"^\s*[#\[(*]{0,3}(?:WARN(?:ING)?|[Ww]arning|(?P<level>W\d{3,4})(?= \d\d:))\b"
    r"(?!: (?:Retrying|Discarding|Unsupported GPU arch)|.{0,200}\bfatal\s{0,3}: )"
    rf"|^.{{0,80}}\bDEBUG\b|^\s*\S+:\d+: \w*Warning: |^{_IGNORED}|\bfalling back (?:to|on)\b"
)
LAST_OF_COMPILER = re.compile(
    r"^(?:compilation terminated|(?:\d{1,9} warnings? and )?\d{1,9} errors? generated|collect2"
    r"|\S*: error: linker command)"
)
_END_OF_OUTPUT = "[end of output]"
_LOGGED_ERROR = re.compile(r"^\[[\w.]{1,60}\|(?:ERROR|CRITICAL)\]")
_CAUGHT_IMPORT = re.compile(r"^\s*Failed to (?:import|load) ")
_ENDS_PROBE = re.compile(r"^\s*removing: _configtest")
# A command or its name, what make says of folders, a status line, and what pip draws around the output.
_NO_WORDS = re.compile(
    r"^(?:\S*$|[:/]|g?make\b|File \"|Traceback |\*\*\* CMake |-- |[\xd7\u2570\u2502\u251c^~|]|note: |hint: "
    r"|>>>|(?:\(\S+\) )?\[?\S{1,40}@\S{1,120}(?: \S{1,120})? ?[#$%] |[$%] |(?:PS )?[A-Z]:\\[^>]{0,200}>|\d+ \|"
    r"|\W*$|.*->$|(?:The above|During handling of the above) exception "
    r"|(?:Building|Linking|Generating|Compiling|Scanning|Performing|Built target) )|\s-[co]\s"
)


@dataclass
class Place:
    """A line found by the prefilter, and the CMake message that it is part of."""

    window: Window
    hit: Hit
    number: int
    message: CMakeMessage | None = None

    @cached_property
    def text(self) -> str:
        """The line; of a very long one the part around the match."""
        start = max(self.hit.start, self.hit.position - LONGEST_TEXT // 2)
        raw = self.window.block[start : min(self.hit.end, start + 2 * LONGEST_TEXT)]
        return clean_text(raw, self.window.frames)

    @property
    def line(self) -> LogLine:
        return LogLine(self.number, self.text)

    @property
    def is_of_warning(self) -> bool:
        return self.message is not None and not self.message.is_error

    @cached_property
    def _texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The lines above, the nearest first, and those below."""
        around = [*self.window.lines(self.number - NEARBY_LINES, self.number + NEARBY_LINES)]
        texts, own = tuple(line.text for line in around), self.number - around[0].number
        return texts[:own][::-1], texts[own + 1 :]

    def nearby(self) -> tuple[str, ...]:
        """The lines around, the nearest first."""
        pairs = chain.from_iterable(zip_longest(*self._texts))
        return (self.text, *(line for line in pairs if line is not None))

    def above(self) -> tuple[str, ...]:
        """The lines above in which a traceback is looked for, the nearest first."""
        lines = self.window.lines(self.number - TRACEBACK_LINES, self.number - 1)
        return tuple(line.text for line in lines)[::-1]

    def after(self, lines: int = BELOW_LINES) -> tuple[str, ...]:
        return self._texts[1][:lines]

    @property
    def goes_on(self) -> bool:
        """Whether the next line that is indented no further is an ordinary one, and not part of a message."""
        paragraph = takewhile(str.strip, self.after()) if _EXCEPTION.match(self.text) else ()
        if any(is_stop(line.strip()) for line in paragraph):
            return False
        below = filter(self._is_as_far_left, self.after())
        line = next((line.lstrip() for line in below if any(map(str.isalnum, line))), "")
        return line != "" and not _OF_FAILURE.search(line)

    def whole_texts(self) -> Iterator[str]:
        """Yield the line, or its paragraph of CMake's message, and an exception that uv filled into several lines."""
        if self.message is None or self.number == self.message.numbers[0]:
            yield self.text
        else:
            yield self.message.paragraph_at(self.number)[:LONGEST_TEXT]
        indent = count_indentation(self.text)
        if indent and len(self.text) >= SHORTEST_FILLED and _EXCEPTION.match(self.text):
            below = takewhile(lambda line: line[:indent].isspace() and line[indent:].strip(), self.after())
            yield " ".join([self.text, *(line.strip() for line in below)])

    @cached_property
    def is_caught(self) -> bool:
        """Whether it is only a warning, or becomes one, or is an exception that a warning is about."""
        above = self._texts[0]
        message = takewhile(lambda line: not _SOURCE_OF_WARNING.match(line), above[:WARNING_LINES])
        if _WARNS.search(self.text) or any(map(_IS_WARNING.search, message)):
            return True
        if _CAUGHT_IMPORT.match(self.text) and self.goes_on:
            return True
        own = self.text.split()[:1]
        following = (
            line for line in self.after() if line.split()[:1] != own and not LAST_OF_COMPILER.match(line)
        )
        told = next((one for one in following if any(word.search(one) for word in _TELLS)), "")
        # Other warnings may stand below any error; one of a library that is only looked for names it.
        if _FALLS_BACK.search(told) or (_LOGGED_WARNING.search(told) and self._is_told_in(told)):
            return True
        lines = dropwhile(lambda line: not (_TRACEBACK.match(line) or self._is_as_far_left(line)), above)
        logged = next(lines, "") if "Traceback" in next(lines, "") else ""
        warning = _WARNS.search(logged)
        # A traceback that the step ends with is not part of the warning above it; a logger's was caught.
        if warning is None or warning["level"]:
            return _LOGGED_ERROR.match(logged) is not None
        return warning[0] == _IGNORED or self.goes_on

    def _is_told_in(self, warning: str) -> bool:
        """Whether a warning says that the work goes on without a library that was not found here."""
        around = (self.text, *self._texts[0][:BELOW_LINES], *self.after())
        names = {one[0] or one[1] for line in around for one in _LIBRARY.findall(line)}
        return "building without" in warning or any(name in warning for name in names)

    @cached_property
    def is_probe(self) -> bool:
        """Whether it, or a line just above, names a source that a tool only tries to compile."""
        above = takewhile(lambda line: not _ENDS_PROBE.match(line), self._texts[0][:BELOW_LINES])
        below = filter(_ENDS_PROBE.match, self.after(EXCERPT_LINES))
        return self.message is None and any(map(_compile_probes().search, (self.text, *above, *below)))

    def last_words(self, comes_first: bool) -> str:
        """Return what the failed step said last, below its report if that comes first; empty if no line is its own."""
        above, below = self._texts
        ends = [number for number, line in enumerate(below) if _END_OF_OUTPUT in line]
        if ends or comes_first:
            own = below[: ends[0]] if ends else takewhile(lambda line: not _is_stop(line), below)
            above = tuple(own)[::-1]
        # A line of source in a traceback says nothing.
        words = (line for line, before in pairwise((*above, "")) if not before.lstrip().startswith('File "'))
        return next((line.strip() for line in words if line.strip() and not _is_stop(line)), "")

    def excerpt(self) -> tuple[LogLine, ...]:
        """This line and some around it; the whole message if CMake wrote it."""
        first, last = self.message.numbers if self.message else (self.number, self.number)
        first = max(self.number - MOST_LINES, min(first, self.number - EXCERPT_LINES))
        last = min(self.number + MOST_LINES, max(last, self.number + EXCERPT_LINES))
        around = self.window.lines(first, last)
        return tuple(self.line if one.number == self.number else one for one in around)

    def _is_as_far_left(self, line: str) -> bool:
        return bool(line[: count_indentation(self.text) + 1].strip())


def _is_stop(line: str) -> bool:
    """Whether a line is no step's own: it reports a failed step, a command, or work that began."""
    line = line.strip()
    if _NO_WORDS.search(line) or read_work().search(line):
        return True
    found = classify(line)
    return found is not None and found.form.role is not Role.ERROR


def places_in(window: Window, hits: Iterable[Hit]) -> Iterator[Place]:
    number, position = window.first_line, 0
    for hit in hits:
        number += window.block.count(b"\n", position, hit.start)
        position = hit.start
        yield Place(window, hit, number)


@cache
def _compile_probes() -> re.Pattern[str]:
    rows = read_toml(Path(__file__).with_name("probes.toml"))["probe"]
    return re.compile("|".join(row["regex"] for row in rows))
