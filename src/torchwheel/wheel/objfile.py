"""Object files and shared libraries of any known format: their named sections, and what they take from others.

Readers of its own, because the files are untrusted: general ELF libraries follow whatever counts and tables a file
announces. These read tables of bounded length and a few bytes of each name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.reporting.errors import refusal
from torchwheel.wheel import elf
from torchwheel.wheel.bounded_file import BoundedFile, open_stream
from torchwheel.wheel.linkage import LibraryFormat, Linkage
from torchwheel.wheel.pe import PE_64, pe_headers, pe_linkage

# Names are compared, not shown: a few bytes more than the longest one that anybody asks for.
_NAME_LENGTH = 32
_COMMENT_LENGTH = 1000
# mold and lld add a line of their own to what the compilers wrote.
_LINKERS = ("mold ", "Linker: ")

_ELF_UNUSED, _ELF_NOBITS = 0, 8  # types of sections without bytes in the file


@dataclass(frozen=True)
class Section:
    """A range of bytes in a file, with a name."""

    name: str
    offset: int
    size: int


def read_sections(stream: BinaryIO, origin: str = "") -> tuple[Section, ...]:
    """The sections of a file that have bytes in it.

    Returns:
        Empty for a file that is neither 64-bit little-endian ELF nor PE.
    """
    file = BoundedFile.of(stream, origin)
    start = file.read(0, min(file.length, len(elf.IDENTITY)))
    if start == elf.IDENTITY:
        sections = _elf_sections(file)
    elif start[:2] == b"MZ":
        sections = _pe_sections(file)
    else:
        return ()
    return tuple(_sections_inside(sections, file))


def _elf_sections(file: BoundedFile) -> Iterator[Section]:
    table, names_index = elf.elf_sections(file)
    for index, section in enumerate(table):
        # `.bss` has a size but no bytes in the file, so it may seem to reach past the end.
        if section.kind in (_ELF_UNUSED, _ELF_NOBITS) or section.size == 0:
            continue
        names = table[names_index]
        if section.name >= names.size:
            raise file.damaged(f"the name of section {index} is not in its table of names")
        length = min(_NAME_LENGTH, names.size - section.name)
        yield Section(
            _decode_name(file.read(names.offset + section.name, length)), section.offset, section.size
        )


def _pe_sections(file: BoundedFile) -> Iterator[Section]:
    headers = pe_headers(file)
    for section in headers.sections if headers else ():
        if section.size:
            yield Section(_decode_name(section.name), section.offset, section.size)


def _sections_inside(sections: Iterator[Section], file: BoundedFile) -> Iterator[Section]:
    for section in sections:
        if section.offset + section.size > file.length:
            raise file.damaged(f"section {section.name!r} reaches past the end of the file")
        yield section


def _decode_name(name: bytes) -> str:
    return name.split(b"\0", 1)[0].decode("ascii", "replace")


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
