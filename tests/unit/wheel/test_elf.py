"""What ELF files take from others, compared with pyelftools."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.wheel.linkage import ImportedSymbol, LibraryFormat, Linkage, NeededVersion
from torchwheel.wheel.objfile import read_linkage


def expected(data: bytes) -> Linkage:
    """What pyelftools reads."""
    elf = ELFFile(io.BytesIO(data))
    libraries: list[str] = []
    needed: dict[int, NeededVersion] = {}
    numbers: list[int] = []
    paths: list[str] = []
    passes_on = False
    imports: list[ImportedSymbol] = []
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            libraries += [tag.needed for tag in section.iter_tags("DT_NEEDED")]
            paths += [tag.runpath for tag in section.iter_tags("DT_RUNPATH")]
            passes_on = not paths and any(section.iter_tags("DT_RPATH"))
            paths += [tag.rpath for tag in section.iter_tags("DT_RPATH")]
        elif isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                needed.update({v["vna_other"]: NeededVersion(library.name, v.name) for v in versions})
        elif isinstance(section, GNUVerSymSection):
            numbers = [
                0x7FFF & symbol["ndx"] if isinstance(symbol["ndx"], int) else 0
                for symbol in section.iter_symbols()
            ]
    symbols = elf.get_section_by_name(".dynsym")
    for index, symbol in enumerate(symbols.iter_symbols() if symbols else ()):
        if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
            version = needed.get(numbers[index]) if numbers else None
            imports.append(ImportedSymbol(symbol.name, "", version.version if version else ""))
    search_path = tuple(filter(None, ":".join(paths).split(":")))
    return Linkage(
        LibraryFormat.ELF,
        tuple(libraries),
        tuple(imports),
        tuple(needed.values()),
        search_path,
        passes_on,
        int.from_bytes(data[18:20], "little"),
    )


@pytest.mark.skipif(sys.platform != "linux", reason="Python's own libraries are ELF on Linux only")
@pytest.mark.parametrize("name", ["_ssl", "_ctypes", "unicodedata"])
def test_pythons_own_modules(name: str) -> None:
    origin = getattr(__import__(name), "__file__", None)
    if origin is None:
        pytest.skip(f"{name} is built into this Python")
    assert read_linkage(Path(origin)) == expected(Path(origin).read_bytes())


def test_newest_versions() -> None:
    needed = ("GLIBC_2.9", "GLIBC_2.28", "GLIBC_PRIVATE", "GLIBCXX_3.4", "GLIBC_ABI_DT_RELR", "Base")
    versions = tuple(NeededVersion("libc.so.6", version) for version in needed)
    found = Linkage(LibraryFormat.ELF, (), (), versions).newest_versions()
    assert found == {"GLIBC": "2.28", "GLIBCXX": "3.4"}


def test_a_file_without_tables(samples: Any) -> None:
    data = samples.elf({".text": b"12345"})
    assert read_linkage(io.BytesIO(data)) == Linkage(LibraryFormat.ELF, (), (), machine=62)


def problem_of(data: bytes) -> Problem:
    with pytest.raises(TorchwheelError) as caught:
        read_linkage(io.BytesIO(data), "lib")
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"#!/bin/sh\n",
        b"\x7fELF\x01\x01" + bytes(100),
        b"MZ" + bytes(62),
        b"\xcf\xfa\xed\xfe" + bytes(60),
    ],
    ids=["empty", "script", "32 bits", "DOS", "Mach-O"],
)
def test_other_formats(data: bytes) -> None:
    assert problem_of(data) == Problem.of("unknown-library-format", origin="lib")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        read_linkage(tmp_path / "none.so")
    assert [(p.id, p.origin) for p in caught.value.problems] == [
        ("unreadable-file", str(tmp_path / "none.so"))
    ]
