"""Named sections of object files and shared libraries: ELF (Linux) and PE (Windows).

Readers of its own, because the files are untrusted: general ELF libraries follow whatever counts and tables a
file announces. These read one table of bounded length and a few bytes of each name. Only what can hold CUDA
device code is known: 64-bit little-endian ELF, and PE.

Sources: the System V ABI, chapter 4 (https://www.sco.com/developers/gabi/latest/contents.html), and
Microsoft's PE format (https://learn.microsoft.com/windows/win32/debug/pe-format).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from torchwheel.errors import Problem, TorchwheelError

# Object files of one section per function have tens of thousands; more than this is an attack or damage.
MAX_SECTIONS = 1 << 17

# Names are compared, not shown: a few bytes more than the longest one that anybody asks for.
_NAME_LENGTH = 32

_ELF_IDENTITY = b"\x7fELF\x02\x01"
_ELF_HEADER = struct.Struct(
    "<16x24xQ10xHHH"
)  # offset of the section table, size of an entry, count, index of names
_ELF_SECTION = struct.Struct("<II16xQQI20x")  # name, type, offset, size, link
_ELF_UNUSED, _ELF_NOBITS = 0, 8  # types of sections without bytes in the file
_ELF_EXTENDED_INDEX = 0xFFFF

_PE_POINTER = struct.Struct("<60xI")
_PE_HEADER = struct.Struct("<4s2xH12xH2x")  # signature, number of sections, size of the optional header
_PE_SECTION = struct.Struct("<8sI4xII16x")  # name, size in memory, size in the file, offset


@dataclass(frozen=True)
class Section:
    """A range of bytes in a file, with a name.

    Attributes:
        name: as stored. PE cuts names to 8 characters.
        offset: first byte in the file.
        size: number of bytes in the file.
    """

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class _File:
    """A file with its length known, so that no position in it is believed unchecked."""

    stream: BinaryIO
    length: int
    origin: str

    def read(self, position: int, length: int) -> bytes:
        """Exactly ``length`` bytes."""
        if position + length > self.length:
            raise self.damaged(f"it ends before byte {position + length}")
        self.stream.seek(position)
        return self.stream.read(length)

    def damaged(self, detail: str) -> TorchwheelError:
        return TorchwheelError(
            Problem(
                id="damaged-library",
                what=f"this is not a complete library: {detail}",
                remedy="build or download the file again",
                origin=self.origin,
            )
        )


def read_sections(stream: BinaryIO, origin: str = "") -> tuple[Section, ...]:
    """The sections of a file that have bytes in it.

    Args:
        stream: a seekable binary stream; its position is changed.
        origin: the file's name, for errors.

    Returns:
        Empty for a file that is neither 64-bit little-endian ELF nor PE.

    Raises:
        TorchwheelError: the file starts like one of these and is damaged.
    """
    file = _File(stream, stream.seek(0, 2), origin)
    start = file.read(0, min(file.length, len(_ELF_IDENTITY)))
    if start == _ELF_IDENTITY:
        sections = _elf_sections(file)
    elif start[:2] == b"MZ":
        sections = _pe_sections(file)
    else:
        return ()
    return tuple(_inside(sections, file))


def _elf_sections(file: _File) -> Iterator[Section]:
    table, entry_size, count, names_index = _ELF_HEADER.unpack(file.read(0, _ELF_HEADER.size))
    if table == 0:
        return
    if entry_size < _ELF_SECTION.size:
        raise file.damaged(f"an entry of its section table has {entry_size} bytes")
    _, _, _, first_size, first_link = _elf_section(file, table)
    # Where the 16-bit fields of the header are too small, section 0 has the numbers.
    count = count or first_size
    if names_index == _ELF_EXTENDED_INDEX:
        names_index = first_link
    if count > MAX_SECTIONS or table + count * entry_size > file.length or names_index >= count:
        raise file.damaged(f"its section table of {count} entries does not fit")
    _, _, names, names_size, _ = _elf_section(file, table + names_index * entry_size)
    for index in range(count):
        name, kind, offset, size, _ = _elf_section(file, table + index * entry_size)
        if kind in (_ELF_UNUSED, _ELF_NOBITS) or size == 0:
            continue
        if name >= names_size:
            raise file.damaged(f"the name of section {index} is not in its table of names")
        yield Section(_text(file.read(names + name, min(_NAME_LENGTH, names_size - name))), offset, size)


def _elf_section(file: _File, position: int) -> tuple[int, int, int, int, int]:
    """Name, type, offset, size and link of the section whose header is at ``position``."""
    name, kind, offset, size, link = _ELF_SECTION.unpack(file.read(position, _ELF_SECTION.size))
    return name, kind, offset, size, link


def _pe_sections(file: _File) -> Iterator[Section]:
    (header,) = _PE_POINTER.unpack(file.read(0, _PE_POINTER.size))
    if header + _PE_HEADER.size > file.length:
        return  # a DOS program
    signature, count, optional_size = _PE_HEADER.unpack(file.read(header, _PE_HEADER.size))
    if signature != b"PE\0\0":
        return
    table = header + _PE_HEADER.size + optional_size
    for index in range(count):
        entry = file.read(table + index * _PE_SECTION.size, _PE_SECTION.size)
        name, memory_size, file_size, offset = _PE_SECTION.unpack(entry)
        # The size in the file is rounded up to the file alignment.
        size = min(memory_size or file_size, file_size)
        if size:
            yield Section(_text(name), offset, size)


def _inside(sections: Iterator[Section], file: _File) -> Iterator[Section]:
    for section in sections:
        if section.offset + section.size > file.length:
            raise file.damaged(f"section {section.name!r} reaches past the end of the file")
        yield section


def _text(name: bytes) -> str:
    return name.split(b"\0", 1)[0].decode("ascii", "replace")
