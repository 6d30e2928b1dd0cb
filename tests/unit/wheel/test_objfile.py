"""Sections of ELF and PE files."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("position", "form", "value"),
    [
        (40, "<Q", 2**64 - 1),  # e_shoff
        (60, "<H", 60_000),  # e_shnum
        (62, "<H", 3),  # e_shstrndx
        (-3 * 64 + 64 + 32, "<Q", 2**63),  # sh_size
    ],
)
def test_damaged_elf(samples: Any, position: int, form: str, value: int) -> None:
    data = bytearray(samples.elf({".text": b"12345"}))
    struct.pack_into(form, data, position, value)
    assert damage(bytes(data))


def test_a_file_that_ends_early_is_damaged(samples: Any) -> None:
    good = samples.elf({".text": b"12345"})
    assert all(damage(good[:end]) for end in (40, len(good) - 1))


def test_damaged_pe(samples: Any) -> None:
    good = samples.pe({".text": b"12345"})
    assert damage(good[:40]) == "it ends before byte 64"
    assert damage(good[:340]) == "it ends before byte 368"
    assert damage(good[:516]) == "section '.text' reaches past the end of the file"
