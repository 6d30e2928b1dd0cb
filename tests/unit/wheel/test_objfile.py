"""Sections of ELF and PE files."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from refusals import error_of
from torchwheel import wheel
from torchwheel.reporting.errors import Problem
from torchwheel.system.toml import read_toml
from torchwheel.wheel.objfile import (
    LibraryFormat,
    Linkage,
    NeededVersion,
    Section,
    platform_problems,
    read_linkage,
    read_sections,
)


def sections(data: bytes) -> tuple[Section, ...]:
    return read_sections(io.BytesIO(data), "lib")


def damage(data: bytes) -> str:
    (problem,) = error_of(sections, data).problems
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


def test_newest_versions() -> None:
    needed = ("GLIBC_2.9", "GLIBC_2.28", "GLIBC_PRIVATE", "GLIBCXX_3.4", "GLIBC_ABI_DT_RELR", "Base")
    versions = tuple(NeededVersion("libc.so.6", version) for version in needed)
    found = Linkage(LibraryFormat.ELF, (), (), versions).newest_versions()
    assert found == {"GLIBC": "2.28", "GLIBCXX": "3.4"}


def test_a_file_without_tables(samples: Any) -> None:
    data = samples.elf({".text": b"12345"})
    assert read_linkage(io.BytesIO(data)) == Linkage(LibraryFormat.ELF, (), (), machine=62)


def problem_of(data: bytes) -> Problem:
    (problem,) = error_of(read_linkage, io.BytesIO(data), "lib").problems
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


def needing(*versions: str) -> Linkage:
    return Linkage(LibraryFormat.ELF, (), (), tuple(NeededVersion("lib.so", version) for version in versions))


MODERN = needing("GLIBC_2.34", "GLIBCXX_3.4.29", "CXXABI_1.3.9", "GCC_3.0")


@pytest.mark.parametrize(
    "tag",
    [
        "linux_x86_64",
        "manylinux_2_34_x86_64",
        "manylinux_2_39_aarch64",
        "musllinux_1_2_x86_64",
        "any",
        "win_amd64",
    ],
)
def test_tags_that_promise_as_much(tag: str) -> None:
    assert not list(platform_problems(MODERN, tag))


def test_a_tag_that_promises_less() -> None:
    (problem,) = platform_problems(MODERN, "manylinux_2_28_x86_64", "m.so")
    assert problem == Problem.of(
        "newer-than-platform-tag",
        origin="m.so",
        needed="GLIBC_2.34, GLIBCXX_3.4.29",
        platform="manylinux_2_28_x86_64",
        promised="GLIBC_2.28, GLIBCXX_3.4.24, CXXABI_1.3.11",
    )


def test_tags_with_a_year_and_tags_older_than_the_table() -> None:
    (problem,) = platform_problems(MODERN, "manylinux2014_x86_64")
    assert problem.why == "the tag promises at most GLIBC_2.17, GLIBCXX_3.4.19, CXXABI_1.3.7"
    (problem,) = platform_problems(MODERN, "manylinux1_x86_64")
    assert problem.why == "the tag promises at most GLIBC_2.5"


def test_the_shipped_levels() -> None:
    folder = Path(wheel.__file__).parent
    schema = json.loads(Path(__file__).with_name("platform_level.schema.json").read_text(encoding="utf-8"))
    document = read_toml(folder / "platform_level.toml")
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    numbers = [
        [tuple(map(int, level[series].split("."))) for series in ("glibc", "GLIBCXX", "CXXABI")]
        for level in document["level"]
    ]
    assert numbers == sorted(numbers)
    assert all(list(column) == sorted(column) for column in zip(*numbers, strict=True))
