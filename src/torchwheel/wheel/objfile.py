"""Object files and shared libraries of any known format: their named sections, and what they take from others.

PE files have a reader of its own: pefile maps the whole file, cuts names at 512 bytes, which C++ exceeds, and stops at
8,192 symbols without a word. Source: https://learn.microsoft.com/windows/win32/debug/pe-format
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.reporting.errors import refusal
from torchwheel.wheel import elf
from torchwheel.wheel.bounded_file import (
    IMPORTS,
    LIBRARIES,
    PE_SECTIONS,
    SYMBOL_BYTES,
    Allowance,
    BoundedFile,
    open_stream,
)
from torchwheel.wheel.linkage import LibraryFormat, Linkage

_COMMENT_LENGTH = 1000
# mold and lld add a line of their own to what the compilers wrote.
_LINKERS = ("mold ", "Linker: ")


@dataclass(frozen=True)
class Section:
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
        headers = pe_headers(file)
        found = (
            (section.name.split(b"\0", 1)[0].decode("ascii", "replace"), section.offset, section.size)
            for section in (headers.sections if headers else ())
            if section.size
        )
    else:
        return ()
    sections = tuple(Section(*one) for one in found)
    for section in sections:
        if section.offset + section.size > file.length:
            raise file.damaged(f"section {section.name!r} reaches past the end of the file")
    return sections


def read_comment(stream: BinaryIO, origin: str = "") -> str:
    """What compilers wrote of themselves into an ELF file, after commas; empty where there is nothing of it."""
    found = next((one for one in read_sections(stream, origin) if one.name == ".comment"), None)
    if found is None:
        return ""
    text = BoundedFile.of(stream, origin).read(found.offset, min(found.size, _COMMENT_LENGTH))
    lines = text.decode("ascii", "replace").split("\0")
    return ", ".join(dict.fromkeys(line for line in lines if line and not line.startswith(_LINKERS)))


def read_linkage(source: Path | BinaryIO, origin: str = "") -> Linkage:
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


# The position of the PE header, at the end of the header for DOS.
_POINTER = struct.Struct("<60xI")
_HEADER = struct.Struct("<4sHH12xH2x")  # signature, machine, number of sections, size of the optional header
_SECTION = struct.Struct("<8sIIII16x")  # name, size in memory, address in memory, size in the file, offset

PE_64 = b"\x0b\x02"
"""How the optional header of a 64-bit file starts."""

_DIRECTORY = struct.Struct("<II")  # address, size
# In a 64-bit file; a 32-bit one has the tables 16 bytes earlier.
_COUNT_AT, _DIRECTORIES_AT = 108, 112
_IMPORTS, _DELAYED_IMPORTS = 1, 13

# Where an entry of either table has the addresses of its DLL's name and of its list of symbols.
_DESCRIPTOR = struct.Struct("<I8xII")  # list of symbols, name, addresses of the symbols
_DELAYED = struct.Struct("<4xI8xI12x")  # name, list of symbols

_THUNK = struct.Struct("<Q")
_BY_NUMBER = 1 << 63
_ORDINAL = 0xFFFF

_PIECE = 256


@dataclass(frozen=True)
class PeSection:
    """An entry of the section table; nothing in it is checked."""

    name: bytes
    memory_size: int
    address: int
    file_size: int
    offset: int

    @property
    def size(self) -> int:
        # Object files state no size in memory.
        return min(self.memory_size or self.file_size, self.file_size)


@dataclass(frozen=True)
class PeHeaders:
    """The headers of a PE file.

    Attributes:
        optional: the optional header, whose first number tells its kind.
    """

    machine: int
    optional: bytes
    sections: tuple[PeSection, ...]


def pe_headers(file: BoundedFile) -> PeHeaders | None:
    """The headers; None for a program for DOS, which starts like them."""
    (header,) = _POINTER.unpack(file.read(0, _POINTER.size))
    if header + _HEADER.size > file.length:
        return None
    signature, machine, count, optional_size = _HEADER.unpack(file.read(header, _HEADER.size))
    if signature != b"PE\0\0":
        return None
    optional = header + _HEADER.size
    table = optional + optional_size
    sections = tuple(
        PeSection(*_SECTION.unpack(file.read(table + index * _SECTION.size, _SECTION.size)))
        for index in range(count)
    )
    return PeHeaders(machine, file.read(optional, optional_size), sections)


def pe_linkage(file: BoundedFile, headers: PeHeaders, *, symbols: bool = True) -> Linkage:
    if len(headers.sections) > PE_SECTIONS:
        raise file.damaged(f"it has {len(headers.sections)} sections")
    image = _Image(file, headers)
    libraries: list[str] = []
    imports: list[str] = []
    for library, address in image.imports():
        libraries.append(library)
        for name in image.symbols(address) if symbols else ():
            imports.append(name)
            if len(imports) > IMPORTS:
                raise file.damaged(f"it takes more than {IMPORTS} symbols from others")
    return Linkage(LibraryFormat.PE, tuple(libraries), tuple(imports), machine=headers.machine)


@dataclass(frozen=True)
class _Image:
    file: BoundedFile
    headers: PeHeaders

    def imports(self) -> Iterator[tuple[str, int]]:
        for symbols, name, addresses in self._table(_IMPORTS, _DESCRIPTOR):
            # Some linkers write no list of symbols: until the file is loaded, the addresses are one.
            yield self.text(name), symbols or addresses
        # DLLs that are loaded when they are first used.
        for name, symbols in self._table(_DELAYED_IMPORTS, _DELAYED):
            yield self.text(name), symbols

    def symbols(self, address: int) -> Iterator[str]:
        while True:
            (thunk,) = _THUNK.unpack(self._read(address, _THUNK.size))
            if thunk == 0:
                return
            # Two bytes before a name are a hint where to look for it.
            yield f"#{thunk & _ORDINAL}" if thunk & _BY_NUMBER else self.text(thunk + 2)
            address += _THUNK.size

    def text(self, address: int) -> str:
        found = b""
        while b"\0" not in found:
            if len(found) > SYMBOL_BYTES:
                raise self.file.damaged("a name in its import table does not end")
            position, available = self._place(address + len(found))
            found += self.file.read(position, min(_PIECE, available))
        return found.split(b"\0", 1)[0].decode("utf-8", "replace")

    def _table(self, directory: int, form: struct.Struct) -> Iterator[tuple[int, ...]]:
        """The entries of a table, which an empty one ends."""
        address = self._directory(directory)
        if address == 0:
            return
        for _ in range(LIBRARIES):
            entry = form.unpack(self._read(address, form.size))
            if not any(entry):
                return
            yield entry
            address += form.size
        raise self.file.damaged(f"it names more than {LIBRARIES} libraries")

    def _directory(self, index: int) -> int:
        """The address of one of the tables that the optional header lists; 0 for none."""
        optional = self.headers.optional
        end = _DIRECTORIES_AT + (index + 1) * _DIRECTORY.size
        if len(optional) < end or int.from_bytes(optional[_COUNT_AT:_DIRECTORIES_AT], "little") <= index:
            return 0
        address: int = _DIRECTORY.unpack_from(optional, end - _DIRECTORY.size)[0]
        return address

    def _read(self, address: int, length: int) -> bytes:
        position, available = self._place(address)
        if length > available:
            raise self.file.damaged("its import table reaches past its section")
        return self.file.read(position, length)

    def _place(self, address: int) -> tuple[int, int]:
        """Where in the file an address is, and how many bytes of its section follow."""
        for section in self.headers.sections:
            within = address - section.address
            if 0 <= within < section.size:
                return section.offset + within, section.size - within
        raise self.file.damaged(f"there is nothing at the address {address:#x}, which its import table names")
