"""Object files and shared libraries of any known format: their named sections, and what they take from others.

PE files have a reader of its own: pefile maps the whole file, cuts names at 512 bytes, which C++ exceeds, and stops at
8,192 symbols without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.reporting.errors import refusal
from torchwheel.wheel import elf
from torchwheel.wheel.bounded_file import Allowance, BoundedFile, open_stream
from torchwheel.wheel.linkage import LibraryFormat, Linkage
from torchwheel.wheel.pe import PE_64, pe_headers, pe_linkage

_COMMENT_LENGTH = 1000
# mold and lld add a line of their own to what the compilers wrote.
_LINKERS = ("mold ", "Linker: ")


@dataclass(frozen=True)
class Section:
    """A range of bytes in a file, with a name."""

    name: str
    offset: int
    size: int


def read_sections(
    stream: BinaryIO, origin: str = "", allowance: Allowance | None = None
) -> tuple[Section, ...]:
    """The sections of a file that have bytes in it.

    Returns:
        Empty for a file that is neither 64-bit little-endian ELF nor PE.
    """
    file = BoundedFile.of(stream, origin, allowance)
    start = file.read(0, min(file.length, len(elf.IDENTITY)))
    if start == elf.IDENTITY:
        found = elf.elf_sections(file)
    elif start[:2] == b"MZ":
        found = _pe_sections(file)
    else:
        return ()
    sections = tuple(Section(*one) for one in found)
    for section in sections:
        if section.offset + section.size > file.length:
            raise file.damaged(f"section {section.name!r} reaches past the end of the file")
    return sections


def _pe_sections(file: BoundedFile) -> Iterator[tuple[str, int, int]]:
    headers = pe_headers(file)
    for section in headers.sections if headers else ():
        if section.size:
            yield section.name.split(b"\0", 1)[0].decode("ascii", "replace"), section.offset, section.size


def read_comment(stream: BinaryIO, origin: str = "") -> str:
    """What compilers wrote of themselves into an ELF file, after commas; empty where there is nothing of it."""
    found = next((one for one in read_sections(stream, origin) if one.name == ".comment"), None)
    if found is None:
        return ""
    text = BoundedFile.of(stream, origin).read(found.offset, min(found.size, _COMMENT_LENGTH))
    lines = text.decode("ascii", "replace").split("\0")
    return ", ".join(dict.fromkeys(line for line in lines if line and not line.startswith(_LINKERS)))


def read_linkage(source: Path | BinaryIO, origin: str = "") -> Linkage:
    """Read what a library takes from others."""
    with open_stream(source, origin) as (stream, name):
        linkage = find_linkage(BoundedFile.of(stream, name))
    if linkage is None:
        raise refusal("unknown-library-format", origin=name)
    return linkage


def find_linkage(file: BoundedFile, *, symbols: bool = True) -> Linkage | None:
    """What a library takes from others; None where it is neither ELF nor PE of 64 bits.

    Args:
        symbols: whether to read the symbols; without them, the machine of a PE file of 32 bits is known.
    """
    start = file.read(0, min(file.length, len(elf.IDENTITY)))
    if start == elf.IDENTITY:
        return elf.elf_linkage(file, symbols=symbols)
    headers = pe_headers(file) if start[:2] == b"MZ" else None
    if headers is not None and headers.optional[:2] == PE_64:
        return pe_linkage(file, headers, symbols=symbols)
    return None if headers is None or symbols else Linkage(LibraryFormat.PE, (), (), machine=headers.machine)
