"""Files that need not be trusted: no position or length that one announces is believed unchecked, nor is all read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.reporting.errors import TorchwheelError, reading, refusal
from torchwheel.system.files import open_file

# How much of a wheel is read: what is larger is refused, so that a small file cannot cost much. Honest wheels stay far
# below: the largest known is PyTorch's for CUDA, with 13,043 files, 1.3 MB of RECORD, 2,975 images of device code in
# one library, and 6,500 symbols that one takes from others.

TEXT_BYTES = 1 << 20  # METADATA and WHEEL
FIELD_LINES = 20_000  # lines of fields in each of them; the description below is not counted
# torch/version.py, which is parsed as Python: each byte of source may take a hundred of memory.
VERSION_FILE_BYTES = 1 << 16
MANIFEST_BYTES = 4 << 20
RECORD_BYTES = 16 << 20
MEMBERS = 100_000  # of a wheel, and lines of its RECORD
# All members together may unpack to as many bytes, or to so many times the bytes of the file if that is more.
EXPANSION, EXPANDED_BYTES = 100, 64 << 20
HEADERS = 100_000  # sections, fat binaries and their entries in all libraries of a wheel
# Of the tables and names of all ELF files of a wheel: PyTorch's for CUDA take 73,000, and an object file with 60,000
# sections, one for each function, 660,000.
READS, READ_BYTES = 1_000_000, 1 << 26
PE_SECTIONS = 96  # Windows loads no more
IMPORTS = 1 << 16  # symbols that a library takes from others
LIBRARIES = 1 << 12  # that a DLL names
SYMBOL_BYTES = 1 << 14  # a symbol's name in a PE file


@contextmanager
def open_stream(source: Path | BinaryIO, origin: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file's stream, with its name for errors; a stream is passed on as it is, and stays open."""
    if not isinstance(source, Path):
        yield source, origin
        return
    with reading(origin or source), open_file(source) as stream:
        yield stream, origin or str(source)


@dataclass
class Allowance:
    """How much more may be read, of all libraries of a wheel: headers of device code; and tables and names of ELF."""

    headers: int = HEADERS
    reads: int = READS
    bytes: int = READ_BYTES


@dataclass(frozen=True)
class BoundedFile:
    stream: BinaryIO
    length: int
    origin: str
    allowance: Allowance

    @classmethod
    def of(cls, stream: BinaryIO, origin: str, allowance: Allowance | None = None) -> BoundedFile:
        return cls(stream, stream.seek(0, 2), origin, allowance or Allowance())

    def read(self, position: int, length: int) -> bytes:
        if position + length > self.length:
            raise self.damaged(f"it ends before byte {position + length}")
        self.stream.seek(position)
        return self.stream.read(length)

    def damaged(self, detail: str) -> TorchwheelError:
        return refusal("damaged-library", origin=self.origin, detail=detail)


class MeteredStream:
    """A file as a stream that ends after so many reads and bytes, which bounds time and memory of any parser."""

    def __init__(self, file: BoundedFile) -> None:
        self._file = file
        self.seek, self.tell = file.stream.seek, file.stream.tell

    def read(self, size: int) -> bytes:
        left = self._file.allowance
        left.reads -= 1
        left.bytes -= size
        if min(left.reads, left.bytes) < 0:
            raise self._file.damaged("its tables and names have no end")
        return self._file.stream.read(size)
