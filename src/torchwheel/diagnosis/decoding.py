"""Decode a log of any encoding and size into blocks of lines, and clean single lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from html import unescape
from itertools import chain, pairwise
from typing import BinaryIO

from torchwheel.diagnosis.failures import LogLine
from torchwheel.diagnosis.frames import SAMPLE_LINES, Frames, learn_frames, remove_frames

CHUNK_BYTES = 1 << 18
"""Bytes read at once."""

LONGEST_LINE_BYTES = 1 << 22
"""Longer lines are cut, because a log without line ends must not fill the memory."""

LONGEST_TEXT = 2000
"""Characters of a line that are searched; compiler command lines can have ten thousand."""

MARGIN_BYTES = 1 << 16
"""Bytes of the neighbouring blocks that remain available."""

_ESCAPE_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~])"
)
_RETURNS_BEFORE_LINE_END = re.compile(rb"(?<!\r)\r+\n")
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_COLOUR_WITHOUT_ESCAPE = re.compile(r"\[\d{1,2}(?:;\d{1,3})*m|\[m\[K|\[K(?!illed\])")
# In a log that was saved from a page.
_ENTITY = re.compile(rb"&(?:lt|gt|amp|quot|apos|#x27|#3[49]);")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
# gzip, xz, zstd, bzip2, zip, ELF.
_MAGIC = (b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh", b"PK\x03\x04", b"\x7fELF")
_BINARY = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_SAMPLE_BYTES = 1 << 14
_MOST_BINARY = 20
"""Maximum share of control characters in a text: one of so many characters."""


def read_chunks(stream: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    """Read a stream in chunks of equal size, however it arrives; only the last one may be shorter."""
    buffer = bytearray()
    for piece in iter(partial(stream.read, CHUNK_BYTES), b"") if hasattr(stream, "read") else stream:
        buffer += piece
        while len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer[:CHUNK_BYTES])
            del buffer[:CHUNK_BYTES]
    if buffer:
        yield bytes(buffer)


def is_text(beginning: bytes) -> bool:
    """Whether the beginning of a file is text in any encoding, rather than an archive or a program."""
    if beginning.startswith(_MAGIC):
        return False
    text = b"".join(as_utf8([beginning[:_SAMPLE_BYTES]]))
    return len(_BINARY.findall(text)) * _MOST_BINARY <= len(text)


def line_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines in UTF-8, with ``\\n`` as line end, without escapes of terminals and pages."""
    rest = b""
    for chunk in as_utf8(chunks):
        lines, end, rest = (rest + chunk).rpartition(b"\n")
        if end:
            yield _without_escapes(lines + end)
        if len(rest) > LONGEST_LINE_BYTES:
            yield _without_escapes(rest)
            rest = b""
    if rest:
        yield _without_escapes(rest)


def as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Convert chunks to UTF-8, or leave an encoding that contains ASCII.

    UTF-16, which PowerShell's ``>`` writes and its ``>>`` appends to logs in other encodings, is recognised by its
    byte order mark or its zero bytes. Other zero bytes are dropped.
    """
    decoder: codecs.IncrementalDecoder | None = None
    for chunk in chunks:
        start, encoding = (0, None) if decoder is not None else _find_utf16(chunk)
        if encoding is not None:
            decoder = codecs.getincrementaldecoder(encoding)("replace")
            yield chunk[:start]
        if decoder is not None and b"\x00" in chunk:
            yield decoder.decode(chunk[start:]).replace("\ufeff", "").encode("utf-8", "replace")
        else:
            yield chunk.replace(b"\x00", b"")


def _find_utf16(chunk: bytes) -> tuple[int, str | None]:
    """Find the start of UTF-16 in a chunk, and its byte order; appended text is little endian, as on Windows."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if chunk.startswith(mark):
            return 0, encoding
    zero = chunk.find(0)
    sample = chunk[zero : zero + 4096]
    # In UTF-16 every second byte of Latin text is zero; single zero bytes in other logs are only dropped.
    if zero < 0 or sample.count(0) * 4 < len(sample):
        return 0, None
    return (0, "utf-16-be") if zero == 0 else (zero - 1, "utf-16-le")


def _without_escapes(block: bytes) -> bytes:
    if b"\x1b" in block:
        block = _ESCAPE_SEQUENCE.sub(b"", block)
    if b"&" in block:
        block = _ENTITY.sub(lambda entity: unescape(entity[0].decode()).encode(), block)
    if b"\r" in block:
        block = _RETURNS_BEFORE_LINE_END.sub(b"\n", block)
    return block


@dataclass
class Window:
    """A block of whole lines with its context, and the frames of the lines read so far."""

    before: bytes
    block: bytes
    after: bytes
    first_line: int
    known: Frames = ()

    @cached_property
    def frames(self) -> Frames:
        """What precedes each line; learned only for blocks in which something is looked at."""
        lines = self.block.split(b"\n")
        sample = lines[:: max(1, len(lines) // SAMPLE_LINES)]
        texts = [_plain_text(line[:LONGEST_TEXT]) for line in sample]
        self.known = learn_frames(texts, self.known)
        return self.known

    def tail(self, lines: int) -> tuple[tuple[str, LogLine], ...]:
        """Return the last lines of the log, each after its whole text; none before its last block."""
        if self.after:
            return ()
        numbers = self.last_line - lines + 1, self.last_line
        # What a progress display has overwritten may be a step, too.
        whole = (raw[:LONGEST_TEXT].replace(b"\r", b" ") for _, raw in self._raw(*numbers))
        return tuple(zip(map(_plain_text, whole), self.lines(*numbers), strict=True))

    @property
    def last_line(self) -> int:
        return self.first_line + self.block.count(b"\n") - self.block.endswith(b"\n")

    def lines(self, first: int, last: int) -> Iterator[LogLine]:
        """Return the lines of these numbers, as far as they are in the block and the ends of its neighbours."""
        return (LogLine(number, clean_text(raw, self.frames)) for number, raw in self._raw(first, last))

    @cached_property
    def _lines(self) -> Sequence[bytes]:
        return (self.before + self.block + self.after).removesuffix(b"\n").split(b"\n")

    def _raw(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        start = self.first_line - self.before.count(b"\n")
        first = max(first, start)
        return enumerate(self._lines[first - start : max(0, last + 1 - start)], first)


def read_windows(blocks: Iterable[bytes]) -> Iterator[Window]:
    """Yield each block with the ends of its neighbours."""
    window = Window(b"", b"", b"", 1)
    for block, after in pairwise(chain(blocks, [b""])):
        before = _whole_lines_at_end(window.before + window.block)
        line = window.first_line + window.block.count(b"\n")
        window = Window(before, block, after[:MARGIN_BYTES], line, window.known)
        yield window


def _whole_lines_at_end(text: bytes) -> bytes:
    if len(text) <= MARGIN_BYTES:
        return text
    end = text[-MARGIN_BYTES:]
    return end[end.find(b"\n") + 1 :]


# The lines around a match are often those around the next one, too.
@lru_cache(maxsize=128)
def clean_text(raw: bytes, frames: Frames = ()) -> str:
    """Decode a line as a terminal would finally show it, without colours, frames and control characters."""
    return remove_frames(_plain_text(raw), frames)[:LONGEST_TEXT].rstrip()


def _plain_text(raw: bytes) -> str:
    # A progress display overwrites itself.
    segments = reversed(raw.decode("utf-8", "replace").split("\r"))
    text = next((segment for segment in segments if segment.strip()), "")
    return _CONTROL.sub("", _COLOUR_WITHOUT_ESCAPE.sub("", text))
