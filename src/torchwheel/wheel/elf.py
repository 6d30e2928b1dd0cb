"""ELF files: their section table, and what they take from others, in bounded work.

Only 64-bit little-endian files. What a file takes from others is in its dynamic section, dynamic symbols and needed
versions, found through the section table, which linkers write and ``strip`` keeps.

Sources: the System V ABI, chapters 4 and 5 (https://www.sco.com/developers/gabi/latest/contents.html); for versions
https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from torchwheel.wheel.bounded_file import IMPORTS, NAMES_BYTES, NEEDED_VERSIONS, SECTIONS, BoundedFile
from torchwheel.wheel.linkage import ImportedSymbol, LibraryFormat, Linkage, NeededVersion

IDENTITY = b"\x7fELF\x02\x01"
"""How a 64-bit little-endian file starts."""

# offset of the section table, size of an entry, count, index of names
_HEADER = struct.Struct("<16x24xQ10xHHH")
# version, system, its version, padding; type, machine, version; program headers: offset, size of one, number
_LOADER_HEADER = struct.Struct("<6xBBB7sHHI8xQ14xHH")
_PROGRAM = struct.Struct("<I4xQ")  # type, offset
_PROGRAM_SIZE, _SEGMENT_DYNAMIC = 56, 2
_SECTION = struct.Struct("<II16xQQII16x")  # name, type, offset, size, link, info
_EXTENDED_INDEX = 0xFFFF

_DYNAMIC = struct.Struct("<QQ")  # tag, value
_SYMBOL = struct.Struct("<IBxH16x")  # name, binding and type, section
_NEED = struct.Struct("<2xHIII")  # number of versions, library, first version, next library
_VERSION = struct.Struct("<6xHII")  # number, name, next version

_KIND_DYNAMIC, _KIND_SYMBOLS = 6, 11
_KIND_NEEDED_VERSIONS, _KIND_VERSION_NUMBERS = 0x6FFFFFFE, 0x6FFFFFFF
_TAG_END, _TAG_NEEDED, _TAG_RPATH, _TAG_RUNPATH = 0, 1, 15, 29
_UNDEFINED = 0
_NUMBER = 0x7FFF  # of a version; the bit above it hides symbols

# Names may share bytes, where one ends another; honest ones gain little by it.
_MAX_SHARING = 16


@dataclass(frozen=True)
class ElfSection:
    """An entry of the section table; nothing in it is checked.

    Attributes:
        link: index of a section that belongs to it: for tables, the one with their strings.
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
    """
    table, entry_size, count, names_index = _HEADER.unpack(file.read(0, _HEADER.size))
    if table == 0:
        return (), 0
    if entry_size < _SECTION.size:
        raise file.damaged(f"an entry of its section table has {entry_size} bytes")
    first = ElfSection(*_SECTION.unpack(file.read(table, _SECTION.size)))
    # Where the 16-bit fields of the header are too small, section 0 has the numbers.
    count = count or first.size
    if names_index == _EXTENDED_INDEX:
        names_index = first.link
    if count > SECTIONS or table + count * entry_size > file.length or names_index >= count:
        raise file.damaged(f"its section table of {count} entries does not fit")
    data = file.read(table, count * entry_size)
    return tuple(
        ElfSection(*_SECTION.unpack_from(data, at)) for at in range(0, len(data), entry_size)
    ), names_index


def elf_linkage(file: BoundedFile, *, symbols: bool = True) -> Linkage:
    """What a 64-bit little-endian ELF file takes from others."""
    sections, _ = elf_sections(file)
    reader = _Reader(file, sections)
    versions = dict(reader.versions())
    # DT_RPATH counts only where there is no DT_RUNPATH.
    folders = {tag: next(reader.dynamic(tag), "") for tag in (_TAG_RUNPATH, _TAG_RPATH)}
    return Linkage(
        LibraryFormat.ELF,
        libraries=tuple(reader.dynamic(_TAG_NEEDED)),
        imports=tuple(reader.imports(versions)) if symbols else (),
        versions=tuple(versions.values()),
        search_path=tuple(filter(None, (folders[_TAG_RUNPATH] or folders[_TAG_RPATH]).split(":"))),
        passes_on=bool(folders[_TAG_RPATH]) and not folders[_TAG_RUNPATH],
        machine=_LOADER_HEADER.unpack(file.read(0, _LOADER_HEADER.size))[5],
        fault=next(_find_faults(file, sections), ""),
    )


def _find_faults(file: BoundedFile, sections: tuple[ElfSection, ...]) -> Iterator[str]:
    """Yield why the loader refuses a library by its header.

    Source: open_verify and _dl_map_object_from_fd, https://sourceware.org/git/?p=glibc.git;a=blob;f=elf/dl-load.c
    """
    header = _LOADER_HEADER.unpack(file.read(0, _LOADER_HEADER.size))
    version, system, system_version, padding, kind, _, again, table, size, count = header
    for field, value, known in (
        ("EI_VERSION", version, (1,)),
        ("EI_OSABI", system, (0, 3)),
        ("EI_ABIVERSION", system_version, (0,)),
        ("EI_PAD", padding, (bytes(7),)),
        ("e_type", kind, (3,)),
        ("e_version", again, (1,)),
        ("e_phentsize", size, (_PROGRAM_SIZE,)),
    ):
        if value not in known:
            yield f"{field} is {value!r}"
    if table + count * _PROGRAM_SIZE > file.length:
        yield f"e_phoff is {table} and e_phnum {count}"
        return
    data = file.read(table, count * _PROGRAM_SIZE)
    rows = (_PROGRAM.unpack_from(data, at) for at in range(0, len(data), _PROGRAM_SIZE))
    loaded = [offset for kind, offset in rows if kind == _SEGMENT_DYNAMIC]
    if loaded != [section.offset for section in sections if section.kind == _KIND_DYNAMIC]:
        yield "e_phoff, e_phnum and e_shoff lead to different dynamic sections"


class _Reader:
    """Reads the tables of one file; it has at most one of each kind."""

    def __init__(self, file: BoundedFile, sections: tuple[ElfSection, ...]) -> None:
        self._file = file
        self._sections = sections
        self._by_kind = {section.kind: section for section in sections}

    def dynamic(self, wanted: int) -> Iterator[str]:
        """The strings that the dynamic section has under a tag."""
        section = self._by_kind.get(_KIND_DYNAMIC)
        if section is None:
            return
        names = self._names(section)
        for tag, value in _DYNAMIC.iter_unpack(self._entries(section, _DYNAMIC)):
            if tag == _TAG_END:
                return
            if tag == wanted:
                yield names.at(value)

    def imports(self, versions: dict[int, NeededVersion]) -> Iterator[ImportedSymbol]:
        """The undefined dynamic symbols; ``versions`` by the number that the file gives them."""
        section = self._by_kind.get(_KIND_SYMBOLS)
        if section is None:
            return
        names = self._names(section)
        numbers = self._version_numbers()
        taken = 0
        for index, (name, _, place) in enumerate(_SYMBOL.iter_unpack(self._entries(section, _SYMBOL))):
            # The first symbol of every table is empty.
            if place != _UNDEFINED or name == 0:
                continue
            taken += 1
            if taken > IMPORTS:
                raise self._file.damaged(f"it takes more than {IMPORTS} symbols from others")
            number = int.from_bytes(numbers[2 * index : 2 * index + 2], "little") & _NUMBER
            needed = versions.get(number)
            yield ImportedSymbol(names.at(name), version=needed.version if needed else "")

    def versions(self) -> Iterator[tuple[int, NeededVersion]]:
        """The versions that other libraries must have, each with its number in this file."""
        section = self._by_kind.get(_KIND_NEEDED_VERSIONS)
        if section is None:
            return
        names = self._names(section)
        data = self._file.read(section.offset, section.size)
        left = NEEDED_VERSIONS
        for position, (count, library, first, _) in self._chain(data, _NEED, 0, section.info):
            for _, (number, name, _) in self._chain(data, _VERSION, position + first, count):
                left -= 1
                if left < 0:
                    raise self._file.damaged(f"it needs more than {NEEDED_VERSIONS} versions")
                yield number, NeededVersion(names.at(library), names.at(name))

    def _chain(
        self, data: bytes, form: struct.Struct, position: int, count: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Entries that each end with the distance to the next, which leads forwards only."""
        for _ in range(count):
            if position + form.size > len(data):
                raise self._file.damaged("its table of needed versions does not fit")
            entry = form.unpack_from(data, position)
            yield position, entry
            if entry[-1] == 0:
                return
            position += entry[-1]

    def _version_numbers(self) -> bytes:
        """The number of the version of each dynamic symbol, two bytes each."""
        section = self._by_kind.get(_KIND_VERSION_NUMBERS)
        if section is None:
            return b""
        return self._entries(section, struct.Struct("<H"))

    def _names(self, section: ElfSection) -> _Names:
        """The strings of a table."""
        if section.link >= len(self._sections):
            raise self._file.damaged("one of its tables has no strings")
        strings = self._sections[section.link]
        return _Names(self._file, self._file.read(strings.offset, strings.size))

    def _entries(self, section: ElfSection, form: struct.Struct) -> bytes:
        """The bytes of a table, in whole entries."""
        return self._file.read(section.offset, section.size // form.size * form.size)


class _Names:
    """A table of strings that end with a zero byte, read once each, and altogether not much more than there is."""

    def __init__(self, file: BoundedFile, data: bytes) -> None:
        self._file = file
        self._data = data
        self._left = min(_MAX_SHARING * len(data), NAMES_BYTES)
        self._known: dict[int, str] = {}

    def at(self, position: int) -> str:
        """The string that starts at ``position``."""
        if position not in self._known:
            end = self._data.find(b"\0", position)
            if end < 0:
                raise self._file.damaged("a name is not in its table of strings")
            self._left -= end - position
            if self._left < 0:
                raise self._file.damaged("its names overlap")
            self._known[position] = self._data[position:end].decode("utf-8", "replace")
        return self._known[position]
