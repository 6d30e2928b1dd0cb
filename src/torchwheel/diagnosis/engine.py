"""Finding the first cause in a log of any size, in one pass and bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO

from torchwheel.diagnosis.catalogue import Catalogue, catalogue
from torchwheel.diagnosis.decoding import line_blocks, read_chunks
from torchwheel.diagnosis.error_lines import error_forms, reports_error
from torchwheel.diagnosis.lines import LONGEST_TEXT, clean
from torchwheel.diagnosis.model import Diagnosis, Entry, ErrorLine, LogLine, Pattern, Recognised, frozen
from torchwheel.diagnosis.prefilter import Hit, Prefilter
from torchwheel.diagnosis.windows import Window, windows

EXCERPT_LINES = 4
"""Lines shown on each side of a recognised line."""

NEARBY_LINES = 30
"""Lines on each side in which context and details are searched; wide, because parallel jobs mix their output."""

ERROR_LINES = 5
"""Error lines kept for a failure that no entry knows."""

LINES_PER_NEEDLE = 20_000
LONGEST_CAPTURE = 160

SUCCESS = "Successfully built "
FAILURE = "Failed to build "


def diagnose(stream: BinaryIO | Iterable[bytes], known: Catalogue | None = None) -> Diagnosis:
    """Read a log to its end and say what went wrong first.

    The cause is the earliest line of the highest rank that occurs: an out-of-memory message beats the linker
    error that follows it, and a hint is a cause only where nothing better is found.

    Args:
        stream: an open binary file or pipe, or chunks of bytes.
        known: the catalogue; the shipped one by default.

    Raises:
        OSError: the stream cannot be read.
    """
    scan = _Scan(known if known is not None else catalogue())
    for window in windows(line_blocks(scan.counted(read_chunks(stream)))):
        scan.read(window)
    return scan.diagnosis()


class _Scan:
    """What is known after the windows read so far."""

    def __init__(self, known: Catalogue) -> None:
        self._patterns = _by_needle(known)
        self._order = {entry.id: number for number, entry in enumerate(known)}
        self._prefilter = Prefilter([*self._patterns, *error_forms()], LINES_PER_NEEDLE)
        self._verdicts = Prefilter([SUCCESS, FAILURE], LINES_PER_NEEDLE)
        self._recognised: dict[str, Recognised] = {}
        self._errors: list[ErrorLine] = []
        self._success_line = 0
        self._failure_line = 0
        self._lines = 0
        self._bytes = 0

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._bytes += len(chunk)
            yield chunk

    def read(self, window: Window) -> None:
        for hit in self._prefilter.hits(window.block):
            self._look(window, hit)
        for hit in self._verdicts.hits(window.block):
            number = window.line_number(hit.start)
            if SUCCESS in hit.needles:
                self._success_line = number
            if FAILURE in hit.needles:
                self._failure_line = number
        self._lines = window.line_number(len(window.block))
        if window.block.endswith(b"\n"):
            self._lines -= 1

    def _look(self, window: Window, hit: Hit) -> None:
        start = max(hit.start, hit.position - LONGEST_TEXT // 2)
        text = clean(window.block[start : min(hit.end, start + 2 * LONGEST_TEXT)])
        for needle in hit.needles:
            for entry, pattern in self._patterns.get(needle, ()):
                self._try(window, hit, text, entry, pattern)
        if len(self._errors) < ERROR_LINES and reports_error(text):
            self._errors.append(ErrorLine(*_excerpt(window, hit, text)))

    def _try(self, window: Window, hit: Hit, text: str, entry: Entry, pattern: Pattern) -> None:
        match = pattern.regex.search(text)
        if match is None:
            return
        known = self._recognised.get(entry.id)
        if known is not None:
            number = window.line_number(hit.start)
            if number != known.line.number:
                self._recognised[entry.id] = replace(known, count=known.count + 1)
            return
        nearby = [line.text for line in window.around(hit.start, hit.end, NEARBY_LINES)]
        if not all(any(regex.search(line) for line in nearby) for regex in entry.context):
            return
        captures = {**_details(entry, nearby), **_present(match.groupdict())}
        line, excerpt = _excerpt(window, hit, text)
        self._recognised[entry.id] = Recognised(
            entry, frozen({**entry.otherwise, **captures}), line, excerpt, count=1
        )

    def diagnosis(self) -> Diagnosis:
        built = self._success_line if self._success_line > self._failure_line else 0
        recognised = [
            one
            for one in self._recognised.values()
            if one.line.number > built or not one.entry.phase.of_build
        ]
        errors = [error for error in self._errors if error.line.number > built]
        recognised.sort(key=lambda one: (one.line.number, self._order[one.entry.id]))
        cause = max(recognised, key=lambda one: one.entry.rank, default=None)
        return Diagnosis(
            cause=cause,
            consequences=tuple(one for one in recognised if one is not cause),
            errors=() if cause else tuple(errors),
            lines=self._lines,
            bytes=self._bytes,
        )


def _by_needle(known: Catalogue) -> dict[str, tuple[tuple[Entry, Pattern], ...]]:
    table: dict[str, tuple[tuple[Entry, Pattern], ...]] = {}
    for entry in known:
        for pattern in entry.patterns:
            table[pattern.needle] = (*table.get(pattern.needle, ()), (entry, pattern))
    return table


def _excerpt(window: Window, hit: Hit, text: str) -> tuple[LogLine, tuple[LogLine, ...]]:
    line = LogLine(window.line_number(hit.start), text)
    around = window.around(hit.start, hit.end, EXCERPT_LINES)
    return line, tuple(line if one.number == line.number else one for one in around)


def _details(entry: Entry, nearby: list[str]) -> dict[str, str]:
    captures: dict[str, str] = {}
    for regex in entry.details:
        match = next((found for line in nearby if (found := regex.search(line))), None)
        if match:
            captures.update(_present(match.groupdict()))
    return captures


def _present(groups: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text.strip()[:LONGEST_CAPTURE] for name, text in groups.items() if text}
