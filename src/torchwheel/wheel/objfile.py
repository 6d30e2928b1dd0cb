"""Object files and shared libraries, ELF and PE: their sections, what they take from others, and what that asks for.

Only 64-bit little-endian ELF files, read by pyelftools in bounded work; what one takes from others is found through the
section table, which linkers write and ``strip`` keeps. PE files have a reader of its own: pefile maps the whole file,
cuts names at 512 bytes, which C++ exceeds, and stops at 8,192 symbols without a word.
Source: https://learn.microsoft.com/windows/win32/debug/pe-format
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar, cast

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import Section as ElfSection
from elftools.elf.sections import SymbolTableSection

from torchwheel.host.machine import parse_platform
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import parse_numbers
from torchwheel.wheel.bounded_file import (
    IMPORTS,
    LIBRARIES,
    PE_SECTIONS,
    SYMBOL_BYTES,
    Allowance,
    BoundedFile,
    MeteredStream,
    open_stream,
)

_DATA = Path(__file__).with_name("platform_level.toml")
_LIBC = re.compile(r"(?:many|musl)linux(?:\d{1,4}|_\d{1,4}_\d{1,4})(?=_)")


class LibraryFormat(Enum):
    ELF = "ELF"
    PE = "PE"


class NeededVersion(NamedTuple):
    library: str
    version: str


@dataclass(frozen=True)
class Linkage:
    """What a shared library takes from others.

    Attributes:
        imports: the symbols, as stored, mangled where C++ is; ``#7`` for number 7 of a DLL.
        search_path: the folders in which an ELF file has its libraries looked for, ``$ORIGIN/../lib``.
        passes_on: whether these folders count for the libraries that it loads too: those of DT_RPATH, without RUNPATH.
        fault: why the loader refuses an ELF file by its header.
    """

    format: LibraryFormat
    libraries: tuple[str, ...]
    imports: tuple[str, ...]
    versions: tuple[NeededVersion, ...] = ()
    search_path: tuple[str, ...] = ()
    passes_on: bool = False
    machine: int = 0
    fault: str = ""

    def newest_versions(self) -> dict[str, str]:
        """The newest version of each series that it needs: ``{"GLIBC": "2.34", "GLIBCXX": "3.4.29"}``."""
        newest: dict[str, str] = {}
        for needed in self.versions:
            series, _, number = needed.version.rpartition("_")
            # Versions without a number, GLIBC_PRIVATE for one, have no order.
            if series and all(part.isdecimal() for part in number.split(".")):
                newest[series] = max(newest.get(series, "0"), number, key=parse_numbers)
        return newest


def platform_problems(linkage: Linkage, platform_tag: str, origin: str = "") -> Iterator[Problem]:
    """Where a library needs newer system libraries than its platform tag promises; only manylinux tags promise any."""
    if not platform_tag.startswith("manylinux"):
        return
    glibc = parse_platform(platform_tag, origin).glibc or "0"
    promised = {"GLIBC": glibc, **_newest_versions(glibc)}
    needed = linkage.newest_versions()
    excess = [
        f"{series}_{needed[series]}"
        for series, newest in promised.items()
        if series in needed and parse_numbers(needed[series]) > parse_numbers(newest)
    ]
    if excess:
        said = ", ".join(f"{series}_{newest}" for series, newest in promised.items())
        values = {"needed": ", ".join(excess), "platform": platform_tag, "promised": said}
        yield Problem.of("newer-than-platform-tag", origin=origin, **values)


def without_libc(tag: str) -> str:
    """A tag, or a tag's platform, without the oldest C library: ``linux_x86_64`` for ``manylinux_2_28_x86_64``."""
    return _LIBC.sub("linux", tag)


@cache
def read_machines() -> Mapping[str, int]:
    machines: Mapping[str, int] = shipped_toml(_DATA)["machines"]
    return machines


def _newest_versions(glibc: str) -> dict[str, str]:
    """Series of symbol versions -> the newest one that a glibc's systems have; none where it is older than all."""
    # What the systems of each manylinux tag have, oldest first: their glibc, and GCC's C++ library.
    levels = shipped_toml(_DATA)["level"]
    reached = [level for level in levels if parse_numbers(level["glibc"]) <= parse_numbers(glibc)]
    return {series: reached[-1][series] for series in ("GLIBCXX", "CXXABI")} if reached else {}


_COMMENT_LENGTH = 1000
# mold and lld add a line of their own to what the compilers wrote.
_LINKERS = ("mold ", "Linker: ")


class Section(NamedTuple):
    name: str
    offset: int
    size: int


def read_sections(
    stream: BinaryIO, origin: str = "", allowance: Allowance | None = None
) -> tuple[Section, ...]:
    """The sections of a file that have bytes in it; none of a file that is neither 64-bit little-endian ELF nor PE."""
    file = BoundedFile.of(stream, origin, allowance)
    start = file.read(0, min(file.length, len(IDENTITY)))
    sections: tuple[Section, ...] = ()
    if start == IDENTITY:
        sections = tuple(_elf_sections(file))
    elif start[:2] == b"MZ" and (headers := _pe_headers(file)):
        sections = tuple(section.named() for section in headers.sections if section.size)
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
        if linkage := find_linkage(BoundedFile.of(stream, name)):
            return linkage
    raise refusal("unknown-library-format", origin=name)


def find_linkage(file: BoundedFile, *, symbols: bool = True) -> Linkage | None:
    """What a library takes from others; None where it is neither ELF nor PE of 64 bits.

    Args:
        symbols: whether to read the symbols; without them, the machine of a PE file of 32 bits is known.
    """
    start = file.read(0, min(file.length, len(IDENTITY)))
    if start == IDENTITY:
        return _elf_linkage(file, symbols=symbols)
    headers = _pe_headers(file) if start[:2] == b"MZ" else None
    if headers is not None and headers.optional[:2] == _PE_64:
        return _pe_linkage(file, headers, symbols=symbols)
    return None if headers is None or symbols else Linkage(LibraryFormat.PE, (), (), machine=headers.machine)


IDENTITY = b"\x7fELF\x02\x01"  # how a 64-bit little-endian file starts
# version, system, its version, padding; type, machine, version; program headers: offset, size of one, number
_LOADER_HEADER = struct.Struct("<6xBBB7sHHI8xQ14xHH")
_PROGRAM = struct.Struct("<I4xQ40x")  # type, offset
_SEGMENT_DYNAMIC = 2
_TABLES = ("SHT_DYNAMIC", "SHT_DYNSYM", "SHT_GNU_verneed")
_SYMBOL = struct.Struct("<I2xH16x")  # name, section
_UNDEFINED = 0

_Table = TypeVar("_Table", bound=ElfSection)


@contextmanager
def _parsed(file: BoundedFile) -> Iterator[ELFFile]:
    try:
        yield ELFFile(cast(IO[bytes], MeteredStream(file)))
    except TorchwheelError:
        raise
    # pyelftools follows what a file says, to whatever error that leads.
    except Exception as error:
        raise file.damaged(f"{type(error).__name__}: {error}"[:100]) from None


def _elf_sections(file: BoundedFile) -> Iterator[Section]:
    with _parsed(file) as elf:
        for section in elf.iter_sections():
            # `.bss` has a size but no bytes in the file, so it may seem to reach past the end.
            if section["sh_type"] not in ("SHT_NULL", "SHT_NOBITS") and section["sh_size"]:
                yield Section(section.name, section["sh_offset"], section["sh_size"])


def _elf_linkage(file: BoundedFile, *, symbols: bool) -> Linkage:
    header = _LOADER_HEADER.unpack(file.read(0, _LOADER_HEADER.size))
    names: dict[str, list[str]] = {"DT_NEEDED": [], "DT_RUNPATH": [], "DT_RPATH": []}
    with _parsed(file) as elf:
        tables = [section for section in elf.iter_sections() if section["sh_type"] in _TABLES]
        dynamic = _first(tables, DynamicSection)
        for tag in dynamic.iter_tags() if dynamic else ():
            if (kind := tag.entry.d_tag) in names:
                names[kind].append(getattr(tag, kind.removeprefix("DT_").lower()))
        needed = _first(tables, GNUVerNeedSection)
        versions = tuple(
            NeededVersion(str(library.name), str(version.name))
            for library, versions in (needed.iter_versions() if needed else ())
            for version in versions
        )
        imports = tuple(_imports(elf, _first(tables, SymbolTableSection))) if symbols else ()
    # DT_RPATH counts only where there is no DT_RUNPATH.
    runpath, rpath = (next(iter(names[tag]), "") for tag in ("DT_RUNPATH", "DT_RPATH"))
    return Linkage(
        LibraryFormat.ELF,
        libraries=tuple(names["DT_NEEDED"]),
        imports=imports,
        versions=versions,
        search_path=tuple(filter(None, (runpath or rpath).split(":"))),
        passes_on=bool(rpath) and not runpath,
        machine=header[5],
        fault=next(_find_faults(file, header, dynamic), ""),
    )


def _first(tables: Iterable[ElfSection], kind: type[_Table]) -> _Table | None:
    return next((table for table in tables if isinstance(table, kind)), None)


def _imports(elf: ELFFile, table: SymbolTableSection | None) -> Iterator[str]:
    if table is None:
        return
    # pyelftools takes 10 s for libtriton.so's 190,000 symbols, nearly all of them defined in it, and its method for the
    # bytes of a section would decompress without a limit.
    elf.stream.seek(table["sh_offset"])
    symbols = elf.stream.read(table["sh_size"])
    for index in range(len(symbols) // _SYMBOL.size):
        name, place = _SYMBOL.unpack_from(symbols, index * _SYMBOL.size)
        # The first symbol of every table is empty.
        if place == _UNDEFINED and name:
            yield table.stringtable.get_string(name)


def _find_faults(file: BoundedFile, header: tuple[Any, ...], dynamic: DynamicSection | None) -> Iterator[str]:
    # As open_verify and _dl_map_object_from_fd do: https://sourceware.org/git/?p=glibc.git;a=blob;f=elf/dl-load.c
    version, system, system_version, padding, kind, _, again, table, size, count = header
    for field, value, known in (
        ("EI_VERSION", version, (1,)),
        ("EI_OSABI", system, (0, 3)),
        ("EI_ABIVERSION", system_version, (0,)),
        ("EI_PAD", padding, (bytes(7),)),
        ("e_type", kind, (3,)),
        ("e_version", again, (1,)),
        ("e_phentsize", size, (_PROGRAM.size,)),
    ):
        if value not in known:
            yield f"{field} is {value!r}"
    if table + count * _PROGRAM.size > file.length:
        yield f"e_phoff is {table} and e_phnum {count}"
        return
    rows = _PROGRAM.iter_unpack(file.read(table, count * _PROGRAM.size))
    loaded = [offset for kind, offset in rows if kind == _SEGMENT_DYNAMIC]
    if loaded != ([dynamic["sh_offset"]] if dynamic else []):
        yield "e_phoff, e_phnum and e_shoff lead to different dynamic sections"


# The position of the PE header, at the end of the header for DOS.
_POINTER = struct.Struct("<60xI")
_HEADER = struct.Struct("<4sHH12xH2x")  # signature, machine, number of sections, size of the optional header
_SECTION = struct.Struct("<8sIIII16x")  # name, size in memory, address in memory, size in the file, offset

_PE_64 = b"\x0b\x02"  # how the optional header of a 64-bit file starts
_DIRECTORY = struct.Struct("<II")  # address, size
# In a 64-bit file; a 32-bit one has the tables 16 bytes earlier.
_COUNT_AT, _DIRECTORIES_AT = 108, 112
_IMPORTS, _DELAYED_IMPORTS = 1, 13

# Where an entry of either table has the addresses of its DLL's name and of its list of symbols.
_DESCRIPTOR = struct.Struct("<I8xII")  # list of symbols, name, addresses of the symbols
_DELAYED = struct.Struct("<4xI8xI12x")  # name, list of symbols

_THUNK = struct.Struct("<Q")
_BY_NUMBER, _ORDINAL = 1 << 63, 0xFFFF
_PIECE = 256


@dataclass(frozen=True)
class _PeSection:
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

    def named(self) -> Section:
        return Section(self.name.split(b"\0", 1)[0].decode("ascii", "replace"), self.offset, self.size)


@dataclass(frozen=True)
class _PeHeaders:
    machine: int
    optional: bytes
    sections: tuple[_PeSection, ...]


def _pe_headers(file: BoundedFile) -> _PeHeaders | None:
    """None for a program for DOS, which starts like them."""
    (header,) = _POINTER.unpack(file.read(0, _POINTER.size))
    if header + _HEADER.size > file.length:
        return None
    signature, machine, count, optional_size = _HEADER.unpack(file.read(header, _HEADER.size))
    if signature != b"PE\0\0":
        return None
    optional = header + _HEADER.size
    table = optional + optional_size
    sections = tuple(
        _PeSection(*_SECTION.unpack(file.read(table + index * _SECTION.size, _SECTION.size)))
        for index in range(count)
    )
    return _PeHeaders(machine, file.read(optional, optional_size), sections)


def _pe_linkage(file: BoundedFile, headers: _PeHeaders, *, symbols: bool) -> Linkage:
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
    headers: _PeHeaders

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
