"""Deflating a wheel's members in parallel, in bounded memory, with the same bytes for any number of threads.

setuptools and scikit-build-core deflate with zlib's level 6 in one thread. Here a member is cut into chunks of 1 MiB
that are deflated apart, each with the 32 KiB before it as dictionary: the cut depends on nothing but the content, and
costs less than 0.001 % in size. zlib, zlib-ng and isal let other Python threads run meanwhile.
"""

from __future__ import annotations

import zipfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import BinaryIO

from torchwheel.host.limits import usable_cores
from torchwheel.wheel.rawzip import RawMember, RawZipWriter, read_stored

_CHUNK = 1 << 20
_WINDOW = 1 << 15
"""How far back deflate refers. Source: RFC 1951, section 2."""
_AHEAD = 3
"""Chunks for each thread in work or waiting to be written: 1 MiB each, or what they were deflated to."""

# Mode -> module, name and level of the engines to prefer, best first; zlib is always there.
# Source: docs/benchmarks.md, wheel compression.
_ENGINES = {
    "fast": (("isal.isal_zlib", "isal", 3), ("zlib", "zlib", 1)),
    "balanced": (("zlib_ng.zlib_ng", "zlib-ng", 6), ("zlib", "zlib", 6)),
    "small": (("zlib_ng.zlib_ng", "zlib-ng", 9), ("zlib", "zlib", 9)),
}
MODES = tuple(_ENGINES)


@dataclass(frozen=True)
class Deflater:
    """One engine and level.

    Attributes:
        name: the engine, ``zlib-ng``.
        level: its level, which means something else for each engine.
        module: the engine, with the functions of :mod:`zlib`.
    """

    name: str
    level: int
    module: ModuleType

    def __str__(self) -> str:
        return f"{self.name} {self.level}"

    def chunk(self, data: bytes, before: bytes, *, last: bool) -> bytes:
        """One chunk as raw deflate, which continues what was deflated of the bytes ``before`` it."""
        # isal takes no empty dictionary.
        dictionary = {"zdict": before} if before else {}
        engine = self.module.compressobj(self.level, zlib.DEFLATED, -zlib.MAX_WBITS, **dictionary)
        end = self.module.Z_FINISH if last else self.module.Z_SYNC_FLUSH
        return bytes(engine.compress(data) + engine.flush(end))


def deflater(mode: str) -> Deflater:
    """The best engine that is installed for a mode, which is one of :data:`MODES`."""
    for module, name, level in _ENGINES[mode]:
        try:
            return Deflater(name, level, import_module(module))
        except ImportError:
            continue
    raise AssertionError("zlib is part of Python")


def copy_deflated(
    members: Iterable[RawMember], source: BinaryIO, origin: str, writer: RawZipWriter, deflater: Deflater
) -> None:
    """Append members of another archive: those that are stored are deflated, all others copied as they are.

    Raises:
        TorchwheelError: the archive ends inside a member, or a member's bytes do not have its checksum.
    """
    threads = usable_cores() or 1
    waiting: deque[tuple[RawMember, bool, Future[bytes]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for member in members:
            if member.info.compress_type != zipfile.ZIP_STORED or not member.info.file_size:
                _write_all(waiting, writer)
                writer.copy(member, source, origin)
                continue
            for data, before, last in _chunks(member, source, origin):
                if len(waiting) >= threads * _AHEAD:
                    _write_one(waiting, writer)
                waiting.append((member, last, pool.submit(deflater.chunk, data, before, last=last)))
        _write_all(waiting, writer)


def _chunks(member: RawMember, source: BinaryIO, origin: str) -> Iterator[tuple[bytes, bytes, bool]]:
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
    info = copy(member.info)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info
