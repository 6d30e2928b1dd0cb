"""What ELF files take from others."""

from __future__ import annotations

import io
from typing import Any

import pytest

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.wheel.objfile import LibraryFormat, Linkage, NeededVersion, read_linkage


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
