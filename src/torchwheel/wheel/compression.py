"""Deflating a wheel's members in parallel, in bounded memory, with the same bytes for any number of threads.

setuptools and scikit-build-core deflate with zlib's level 6 in one thread. Here a member is cut into chunks of 1 MiB
that are deflated apart, each with the 32 KiB before it as dictionary: the cut depends on nothing but the content, and
costs less than 0.001 % in size. zlib lets other Python threads run meanwhile.

Faster engines (isal, zlib-ng) are not used, because the bytes of a wheel would depend on whether one is installed.
"""

from __future__ import annotations

import zipfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import BinaryIO

from torchwheel.host.limits import usable_cores
from torchwheel.wheel.rawzip import RawMember, RawZipWriter, read_stored

_CHUNK = 1 << 20
_WINDOW = 1 << 15
"""How far back deflate refers. Source: RFC 1951, section 2."""
_AHEAD = 3
"""Chunks for each thread in work or waiting to be written: 1 MiB each, or what they were deflated to."""

_LEVEL = 6
"""zlib's own default, and that of setuptools and scikit-build-core."""


def deflate_chunk(data: bytes, before: bytes, *, last: bool) -> bytes:
    """Return one chunk as raw deflate, which continues what was deflated of the bytes ``before`` it."""
    engine = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=before)
    # A sync flush ends on a byte without ending the stream, so that the chunks can simply be joined.
    return engine.compress(data) + engine.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)


def copy_deflated(members: Iterable[RawMember], source: BinaryIO, origin: str, writer: RawZipWriter) -> None:
    """Append members of another archive: those that are stored are deflated, all others copied as they are."""
    threads = usable_cores() or 1
    waiting: deque[tuple[RawMember, bool, Future[bytes]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for member in members:
            # An empty member has no chunk with which it would begin and end.
            if member.info.compress_type != zipfile.ZIP_STORED or not member.info.file_size:
                _write_all(waiting, writer)
                writer.copy(member, source, origin)
                continue
            for data, before, last in _split_content(member, source, origin):
                if len(waiting) >= threads * _AHEAD:
                    _write_one(waiting, writer)
                waiting.append((member, last, pool.submit(deflate_chunk, data, before, last=last)))
        _write_all(waiting, writer)


def _split_content(member: RawMember, source: BinaryIO, origin: str) -> Iterator[tuple[bytes, bytes, bool]]:
    """Content, the bytes before it as far as deflate sees, and whether it is the last."""
    before, left = b"", member.info.file_size
    for data in read_stored(member, source, origin, _CHUNK):
        left -= len(data)
        yield data, before, left == 0
        before = data[-_WINDOW:]


def _write_all(waiting: deque[tuple[RawMember, bool, Future[bytes]]], writer: RawZipWriter) -> None:
    while waiting:
        _write_one(waiting, writer)


def _write_one(waiting: deque[tuple[RawMember, bool, Future[bytes]]], writer: RawZipWriter) -> None:
    member, last, deflated = waiting.popleft()
    if writer.open_member is not member:
        writer.begin(_as_deflated(member), member)
    writer.append(deflated.result())
    if last:
        writer.end()


def _as_deflated(member: RawMember) -> zipfile.ZipInfo:
    # A copy, because writing changes the size in it, and zipfile shares the original.
    info = copy(member.info)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info
