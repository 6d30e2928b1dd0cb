"""The headers of PE files (Windows), in bounded work.

Source: https://learn.microsoft.com/windows/win32/debug/pe-format
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from torchwheel.wheel.bounded_file import BoundedFile

_POINTER = struct.Struct("<60xI")
_HEADER = struct.Struct("<4s2xH12xH2x")  # signature, number of sections, size of the optional header
_SECTION = struct.Struct("<8sIIII16x")  # name, size in memory, address in memory, size in the file, offset


@dataclass(frozen=True)
class PeSection:
    """An entry of the section table; nothing in it is checked.

    Attributes:
        name: 8 characters, padded with zeros.
        memory_size: number of bytes in memory.
        address: relative to where the image is loaded (RVA).
        file_size: number of bytes in the file, rounded up to the file alignment.
        offset: first byte in the file.
    """

    name: bytes
    memory_size: int
    address: int
    file_size: int
    offset: int

    @property
    def size(self) -> int:
        """The bytes in the file that count."""
        return min(self.memory_size or self.file_size, self.file_size)


@dataclass(frozen=True)
class PeHeaders:
    """The headers of a PE file.

    Attributes:
        optional: the optional header, whose first number tells its kind.
        sections: the section table.
    """

    optional: bytes
    sections: tuple[PeSection, ...]


def pe_headers(file: BoundedFile) -> PeHeaders | None:
    """The headers; None for a program for DOS, which starts like them.

    Raises:
        TorchwheelError: they do not fit into the file.
    """
    (header,) = _POINTER.unpack(file.read(0, _POINTER.size))
    if header + _HEADER.size > file.length:
        return None
    signature, count, optional_size = _HEADER.unpack(file.read(header, _HEADER.size))
    if signature != b"PE\0\0":
        return None
    optional = header + _HEADER.size
    table = optional + optional_size
    sections = tuple(
        PeSection(*_SECTION.unpack(file.read(table + index * _SECTION.size, _SECTION.size)))
        for index in range(count)
    )
    return PeHeaders(file.read(optional, optional_size), sections)
