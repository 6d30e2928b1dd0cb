"""Sections of ELF and PE files, compared with an independent reader where there is one."""

from __future__ import annotations

import importlib.util
import io
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.objfile import Section, read_sections


def sections(data: bytes) -> tuple[Section, ...]:
    return read_sections(io.BytesIO(data), "lib")


def damage(data: bytes) -> str:
    with pytest.raises(TorchwheelError) as caught:
        sections(data)
    (problem,) = caught.value.problems
    assert (problem.id, problem.remedy, problem.origin) == (
        "damaged-library",
        "build or download the file again",
        "lib",
    )
    return problem.what.removeprefix("this is not a complete library: ")


def test_elf(samples: Any) -> None:
    data = samples.elf({".text": b"12345", ".empty": b"", ".nv_fatbin": b"abcdefgh"})
    assert sections(data) == (
        Section(".text", 64, 5),
        Section(".nv_fatbin", 72, 8),
        Section(".shstrtab", 80, 35),
    )


def test_pe(samples: Any) -> None:
    data = samples.pe({".text": b"12345", ".nv_fatbin": b"abcdefgh"})
    assert sections(data) == (Section(".text", 512, 5), Section(".nv_fatb", 1024, 8))


def test_other_files_have_none() -> None:
    assert sections(b"") == ()
    assert sections(b"#!/bin/sh\n") == ()
    assert sections(b"\x7fELF\x01\x01" + bytes(100)) == ()  # 32 bits
    assert sections(b"MZ" + bytes(62)) == ()  # a DOS program
    assert sections(b"MZ" + bytes(58) + struct.pack("<I", 4000)) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="Python's own libraries are ELF on Linux only")
@pytest.mark.parametrize("module", ["_ssl", "_ctypes", "unicodedata"])
def test_real_elf_files_as_pyelftools_reads_them(module: str) -> None:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.has_location:
        pytest.skip(f"{module} is built into this Python")
    data = Path(spec.origin).read_bytes()
    expected = [
        (section.name[:32], section["sh_offset"], section["sh_size"])
        for section in ELFFile(io.BytesIO(data)).iter_sections()
        if section["sh_size"] and section["sh_type"] != "SHT_NOBITS"
    ]
    assert [(found.name, found.offset, found.size) for found in sections(data)] == expected


def test_real_pe_file() -> None:
    """setuptools carries Windows launchers for every platform."""
    spec = importlib.util.find_spec("setuptools")
    assert spec is not None and spec.origin is not None
    data = Path(spec.origin).with_name("cli-64.exe").read_bytes()
    found = sections(data)
    assert [section.name for section in found][:2] == [".text", ".rdata"]
    assert all(section.offset + section.size <= len(data) for section in found)


def test_many_sections_are_counted_in_section_0(samples: Any) -> None:
    """The header's 16-bit numbers are 0 and 0xffff where there are more than 65,279 sections."""
    data = bytearray(samples.elf({".text": b"12345", ".nv_fatbin": b"abcdefgh"}))
    (table,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    expected = sections(bytes(data))
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    struct.pack_into("<Q", data, table + 32, count)
    struct.pack_into("<I", data, table + 40, names)
    assert sections(bytes(data)) == expected


def test_damaged_elf(samples: Any) -> None:
    good = samples.elf({".text": b"12345"})
    (table,) = struct.unpack_from("<Q", good, 40)

    def patched(offset: int, form: str, value: int) -> bytes:
        data = bytearray(good)
        struct.pack_into(form, data, offset, value)
        return bytes(data)

    assert damage(good[:40]) == "it ends before byte 64"
    assert damage(good[:-1]) == "its section table of 3 entries does not fit"
    assert damage(patched(40, "<Q", 2**64 - 1)) == "it ends before byte 18446744073709551679"
    assert damage(patched(58, "<H", 8)) == "an entry of its section table has 8 bytes"
    assert damage(patched(60, "<H", 60_000)) == "its section table of 60000 entries does not fit"
    assert damage(patched(62, "<H", 3)) == "its section table of 3 entries does not fit"
    assert damage(patched(table + 64, "<I", 999)) == ("the name of section 1 is not in its table of names")
    assert damage(patched(table + 64 + 32, "<Q", 2**63)) == (
        "section '.text' reaches past the end of the file"
    )
    assert sections(patched(40, "<Q", 0)) == ()


def test_an_announced_number_of_sections_is_bounded(samples: Any) -> None:
    data = bytearray(samples.elf({".text": b"12345"}))
    (table,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<H", data, 60, 0)
    struct.pack_into("<Q", data, table + 32, 2**64 - 1)
    assert damage(bytes(data)) == "its section table of 18446744073709551615 entries does not fit"


def test_damaged_pe(samples: Any) -> None:
    good = samples.pe({".text": b"12345"})
    assert damage(good[:40]) == "it ends before byte 64"
    assert damage(good[:340]) == "it ends before byte 368"
    assert damage(good[:516]) == "section '.text' reaches past the end of the file"


@given(st.data())
def test_mutations_raise_nothing_else(samples: Any, data: st.DataObject) -> None:
    make = data.draw(st.sampled_from([samples.elf, samples.pe]))
    mutated = bytearray(make({".text": b"12345", ".nv_fatbin": b"abcdefgh"}))
    for position in data.draw(st.lists(st.integers(0, len(mutated) - 1), max_size=6)):
        mutated[position] = data.draw(st.integers(0, 255))
    del mutated[data.draw(st.integers(0, len(mutated))) :]
    try:
        found = sections(bytes(mutated))
    except TorchwheelError as error:
        assert [problem.id for problem in error.problems] == ["damaged-library"]
    else:
        assert all(section.offset + section.size <= len(mutated) for section in found)
