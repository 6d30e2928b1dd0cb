"""From the bytes of a log, in whatever encoding and of whatever size, to blocks of whole lines in UTF-8."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

CHUNK_BYTES = 1 << 18
"""How much is read at once."""

LONGEST_LINE_BYTES = 1 << 22
"""Longer lines are cut, so that a log without line ends does not fill the memory."""

_ESCAPE_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_RETURNS_BEFORE_LINE_END = re.compile(rb"\r+\n")
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def read_chunks(stream: BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    """The stream's content in chunks of bounded size; an iterable's items as they come."""
    if isinstance(stream, Iterable) and not hasattr(stream, "read"):
        yield from stream
        return
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def line_blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines: UTF-8, ended by ``\\n`` alone, without terminal escape sequences."""
    rest = b""
    for chunk in as_utf8(chunks):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield _plain(rest + chunk[:end])
            rest = chunk[end:]
        else:
            rest += chunk
        if len(rest) > LONGEST_LINE_BYTES:
            yield _plain(rest)
            rest = b""
    if rest:
        yield _plain(rest)


def as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks in UTF-8, or in an encoding that contains ASCII.

    UTF-16, which PowerShell's ``>`` writes, is recognised by its mark or by its zero bytes. Where the
    encoding changes within the file, as when ``>>`` appends to such a log, zero bytes are dropped, which
    keeps the ASCII letters.
    """
    decoder: codecs.IncrementalDecoder | None = None
    first = True
    for chunk in chunks:
        if first and chunk:
            first = False
            encoding = _utf16_encoding(chunk)
            decoder = codecs.getincrementaldecoder(encoding)("replace") if encoding else None
        if decoder is not None and b"\x00" in chunk:
            yield decoder.decode(chunk).lstrip("\ufeff").encode("utf-8", "replace")
        else:
            yield chunk.replace(b"\x00", b"")


def _utf16_encoding(start: bytes) -> str | None:
    for mark, encoding in _BYTE_ORDER_MARKS:
        if start.startswith(mark):
            return encoding
    sample = start[:4096]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) * 4 < len(sample):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _plain(block: bytes) -> bytes:
    if b"\x1b" in block:
        block = _ESCAPE_SEQUENCE.sub(b"", block)
    if b"\r" in block:
        block = _RETURNS_BEFORE_LINE_END.sub(b"\n", block)
    return block
