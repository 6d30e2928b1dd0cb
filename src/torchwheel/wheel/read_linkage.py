"""Reading what a shared library takes from others, in any format that is known."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.wheel import elf
from torchwheel.wheel.bounded_file import BoundedFile, opened
from torchwheel.wheel.elf_linkage import elf_linkage
from torchwheel.wheel.linkage import Linkage
from torchwheel.wheel.pe import pe_headers
from torchwheel.wheel.pe_linkage import PE_64, pe_linkage


def read_linkage(source: Path | BinaryIO, origin: str = "") -> Linkage:
    """Read what a library takes from others.

    Args:
        source: a path, or a seekable binary stream whose position is changed.
        origin: name for errors; a path names itself.

    Raises:
        TorchwheelError: the file cannot be read, is damaged, or is neither ELF nor PE of 64 bits. Mach-O, the format
            of macOS, cannot be read.
    """
    with opened(source, origin) as (stream, name):
        return _linkage(BoundedFile.of(stream, name))


def _linkage(file: BoundedFile) -> Linkage:
    start = file.read(0, min(file.length, len(elf.IDENTITY)))
    if start == elf.IDENTITY:
        return elf_linkage(file)
    headers = pe_headers(file) if start[:2] == b"MZ" else None
    if headers is not None and headers.optional[:2] == PE_64:
        return pe_linkage(file, headers)
    raise TorchwheelError(
        Problem(
            id="unknown-library-format",
            what="it cannot be read what this library takes from others",
            remedy="check the symbols of libraries for 64-bit Linux and Windows only",
            why="it is neither ELF nor PE of 64 bits; Mach-O, the format of macOS, is not supported",
            origin=file.origin,
        )
    )
