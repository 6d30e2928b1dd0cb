"""Files that need not be trusted: no position or length that one announces is believed unchecked, nor is all read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.reporting.errors import TorchwheelError, refusal, unreadable_error
from torchwheel.system.files import open_file

# How much of a wheel is read: what is larger is refused, so that a small file cannot cost much. Honest wheels stay far
# below: the largest known is PyTorch's for CUDA, with 13,043 files, 1.3 MB of RECORD, 2,975 images of device code in
# one library, and 6,500 symbols that one takes from others.

TEXT_BYTES = 1 << 20
"""METADATA and WHEEL."""
FIELD_LINES = 20_000
"""Lines of fields in each of them; the description below is not counted."""
VERSION_FILE_BYTES = 1 << 16
"""``torch/version.py``, which is parsed as Python: each byte of source may take a hundred of memory."""
MANIFEST_BYTES = 4 << 20
RECORD_BYTES = 16 << 20
MEMBERS = 100_000
"""Members of a wheel, and lines of its RECORD."""
EXPANSION, EXPANDED_BYTES = 100, 64 << 20
"""All members together may unpack to as many bytes, or to so many times the bytes of the file if that is more."""
HEADERS = 100_000
"""Sections, fat binaries and their entries in all libraries of a wheel."""
SECTIONS = 1 << 16
"""Of an ELF file; object files with a section for each function have tens of thousands."""
PE_SECTIONS = 96
"""Windows loads no more."""
IMPORTS = 1 << 16
"""Symbols that a library takes from others."""
LIBRARIES = 1 << 12
"""Libraries that a DLL names."""
NEEDED_VERSIONS = 1 << 14
"""Versions of symbols that an ELF file needs."""
SYMBOL_BYTES = 1 << 14
"""A symbol's name in a PE file."""
NAMES_BYTES = 1 << 26
"""All names together that are read of an ELF file; they may share bytes."""


@contextmanager
def open_stream(source: Path | BinaryIO, origin: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file's stream, with its name for errors; a stream is passed on as it is, and stays open."""
    if not isinstance(source, Path):
        yield source, origin
        return
    try:
        with open_file(source) as stream:
            yield stream, origin or str(source)
    except OSError as error:
        raise unreadable_error(error, origin or str(source)) from None


@dataclass(frozen=True)
class BoundedFile:
    """A seekable binary stream with its length known."""

    stream: BinaryIO
    length: int
    origin: str

    @classmethod
    def of(cls, stream: BinaryIO, origin: str) -> BoundedFile:
        return cls(stream, stream.seek(0, 2), origin)

    def read(self, position: int, length: int) -> bytes:
        """Exactly ``length`` bytes."""
        if position + length > self.length:
            raise self.damaged(f"it ends before byte {position + length}")
        self.stream.seek(position)
        return self.stream.read(length)

    def damaged(self, detail: str) -> TorchwheelError:
        """The error that tells what is wrong with the file."""
        return refusal("damaged-library", origin=self.origin, detail=detail)


@dataclass
class Allowance:
    """How many more headers of device code may be read; one for all libraries of a wheel."""

    headers: int = HEADERS
