"""ELF files: their sections, and what they take from others, read by pyelftools in bounded work.

Only 64-bit little-endian files. What a file takes from others is found through the section table, which linkers write
and ``strip`` keeps.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TypeVar, cast

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import Section, SymbolTableSection

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.bounded_file import BoundedFile, MeteredStream
from torchwheel.wheel.linkage import LibraryFormat, Linkage, NeededVersion

IDENTITY = b"\x7fELF\x02\x01"
"""How a 64-bit little-endian file starts."""

# version, system, its version, padding; type, machine, version; program headers: offset, size of one, number
_LOADER_HEADER = struct.Struct("<6xBBB7sHHI8xQ14xHH")
_PROGRAM = struct.Struct("<I4xQ40x")  # type, offset
_SEGMENT_DYNAMIC = 2
_TABLES = ("SHT_DYNAMIC", "SHT_DYNSYM", "SHT_GNU_verneed")
_SYMBOL = struct.Struct("<I2xH16x")  # name, section
_UNDEFINED = 0

_Table = TypeVar("_Table", bound=Section)


@contextmanager
def _parsed(file: BoundedFile) -> Iterator[ELFFile]:
    try:
        yield ELFFile(cast(IO[bytes], MeteredStream(file)))
    except TorchwheelError:
        raise
    # pyelftools follows what a file says, to whatever error that leads.
    except Exception as error:
        raise file.damaged(f"{type(error).__name__}: {error}"[:100]) from None


def elf_sections(file: BoundedFile) -> Iterator[tuple[str, int, int]]:
    """Yield name, offset and size of the sections that have bytes in the file."""
    with _parsed(file) as elf:
        for section in elf.iter_sections():
            # `.bss` has a size but no bytes in the file, so it may seem to reach past the end.
            if section["sh_type"] not in ("SHT_NULL", "SHT_NOBITS") and section["sh_size"]:
                yield section.name, section["sh_offset"], section["sh_size"]


def elf_linkage(file: BoundedFile, *, symbols: bool = True) -> Linkage:
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


def _first(tables: Iterable[Section], kind: type[_Table]) -> _Table | None:
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
    """Yield why the loader refuses a library by its header.

    Source: open_verify and _dl_map_object_from_fd, https://sourceware.org/git/?p=glibc.git;a=blob;f=elf/dl-load.c
    """
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
