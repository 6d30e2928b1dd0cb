"""The section table of ELF files, in bounded work.

Only 64-bit little-endian files. Source: the System V ABI, chapter 4
(https://www.sco.com/developers/gabi/latest/contents.html).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from torchwheel.wheel.bounded_file import BoundedFile

IDENTITY = b"\x7fELF\x02\x01"
"""How a 64-bit little-endian file starts."""

# Object files of one section per function have tens of thousands; more than this is an attack or damage.
MAX_SECTIONS = 1 << 17

_HEADER = struct.Struct(
    "<16x24xQ10xHHH"
)  # offset of the section table, size of an entry, count, index of names
_SECTION = struct.Struct("<II16xQQII16x")  # name, type, offset, size, link, info
_EXTENDED_INDEX = 0xFFFF


@dataclass(frozen=True)
class ElfSection:
    """An entry of the section table; nothing in it is checked.

    Attributes:
        name: where its name starts in the section of names.
        kind: its type, ``sh_type``.
        offset: first byte in the file.
        size: number of bytes.
        link: index of a section that belongs to it: for tables, the one with their strings.
        info: a number whose meaning depends on the type.
    """

    name: int
    kind: int
    offset: int
    size: int
    link: int
    info: int


def elf_sections(file: BoundedFile) -> tuple[tuple[ElfSection, ...], int]:
    """The section table, and the index of the section with the sections' names.

    Returns:
        No sections for a file without a table.

    Raises:
        TorchwheelError: the table does not fit into the file.
    """
    table, entry_size, count, names_index = _HEADER.unpack(file.read(0, _HEADER.size))
    if table == 0:
        return (), 0
    if entry_size < _SECTION.size:
        raise file.damaged(f"an entry of its section table has {entry_size} bytes")
    first = _section(file, table)
    # Where the 16-bit fields of the header are too small, section 0 has the numbers.
    count = count or first.size
    if names_index == _EXTENDED_INDEX:
        names_index = first.link
    if count > MAX_SECTIONS or table + count * entry_size > file.length or names_index >= count:
        raise file.damaged(f"its section table of {count} entries does not fit")
    return tuple(_section(file, table + index * entry_size) for index in range(count)), names_index


def _section(file: BoundedFile, position: int) -> ElfSection:
    return ElfSection(*_SECTION.unpack(file.read(position, _SECTION.size)))
