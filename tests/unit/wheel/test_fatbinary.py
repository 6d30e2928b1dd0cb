"""Fat binaries and the device code in libraries: made by hand, and compiled by nvcc."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import error_of
from torchwheel.hardware.architecture import Architecture
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.bounded_file import Allowance
from torchwheel.wheel.contents import read_library
from torchwheel.wheel.fatbinary import CodeImage, FatBinaryReader, ImageKind, is_code, read_code


def read(data: bytes, offset: int = 0) -> list[CodeImage]:
    return list(FatBinaryReader(io.BytesIO(data), "lib.so", Allowance()).images(offset, len(data)))


@pytest.mark.parametrize("file_format", ["elf", "pe"])
def test_code_for_amds_gpus_is_seen_but_not_read(file_format: str, samples: Any) -> None:
    build = getattr(samples, file_format)
    library = build({".text": b"\x90" * 16, ".hip_fatbin": bytes(5000), ".hipFatBinSegment": bytes(24)})
    assert read_code(io.BytesIO(library))[1] >= 5000
    assert read_library("library", io.BytesIO(library)).images == ()
    assert read_code(io.BytesIO(build({".text": b"\x90" * 16})))[1] == 0


@pytest.mark.parametrize(
    "start", [b"__CLANG_OFFLOAD_BUNDLE__", b"CCOB", b"\x7fELF\x02\x01" + bytes(12) + b"\xe0\0"]
)
def test_files_of_code_for_amds_gpus_count_whatever_their_name(start: bytes) -> None:
    assert is_code(start)
    assert read_code(io.BytesIO(start + bytes(200)))[1] == len(start) + 200


def damage(data: bytes) -> str:
    """Where a fat binary is damaged."""
    (problem,) = error_of(read, data).problems
    assert (problem.id, problem.origin) == ("damaged-fat-binary", "lib.so")
    return problem.what.partition("at byte ")[2].partition(",")[0]


def test_every_kind_and_suffix_and_stored_sizes(samples: Any) -> None:
    entry = samples.Entry
    data = samples.fat_binary(
        entry(2, 75),
        entry(2, 90, 0x100000),
        entry(2, 103, 0x1200000, header_extra=bytes(48)),
        entry(1, 90, 0x8000, b"\x28\xb5\x2f\xfd" * 4, compressed_size=13, uncompressed_size=600),
        entry(2, 120, 0x2000, bytes(24), compressed_size=20, uncompressed_size=99),
        entry(8, 90, 0x18000, bytes(16), compressed_size=9, uncompressed_size=80),
        entry(2, 80, 0, bytes(16), compressed_size=9, uncompressed_size=80),
    )
    assert read(data) == [
        CodeImage(Architecture(7, 5), ImageKind.SASS, False, 1, 8),
        CodeImage(Architecture(9, 0, "a"), ImageKind.SASS, False, 1, 8),
        CodeImage(Architecture(10, 3, "f"), ImageKind.SASS, False, 1, 8),
        CodeImage(Architecture(9, 0), ImageKind.PTX, False, 1, 13),
        CodeImage(Architecture(12, 0), ImageKind.SASS, False, 1, 20),
        CodeImage(Architecture(9, 0), ImageKind.LTO_IR, False, 1, 9),
        CodeImage(Architecture(8, 0), ImageKind.SASS, False, 1, 9),
    ]


def test_several_fat_binaries_with_padding_between(samples: Any) -> None:
    one, two = samples.fat_binary(samples.Entry(2, 75)), samples.fat_binary(samples.Entry(1, 90))
    data = b"before!!" + bytes(8) + one + bytes(70_000) + two + bytes(24)
    assert [(image.kind, image.architecture.number) for image in read(data, 8)] == [
        (ImageKind.SASS, 75),
        (ImageKind.PTX, 90),
    ]


def test_nothing_there(samples: Any) -> None:
    assert read(b"") == []
    assert read(bytes(100)) == []
    assert read(samples.fat_binary()) == []


def test_an_unknown_kind_is_passed_over(samples: Any) -> None:
    data = samples.fat_binary(samples.Entry(64, 0), samples.Entry(2, 75))
    assert [image.architecture.number for image in read(data)] == [75]


def test_damage_is_found(samples: Any) -> None:
    entry = samples.Entry
    good = samples.fat_binary(entry(2, 75))
    header = (b"\x7fELF" + good[4:], good[:4] + b"\2" + good[5:], good[:6] + b"\4" + good[7:], good[:-1])
    assert [damage(data) for data in header] == ["0"] * 4
    assert damage(good + b"\x50\xed\x55\xba") == "88"
    sizes = (good[:20] + b"\x20" + good[21:], good[:24] + b"\x10" + good[25:])
    entries = (
        entry(2, 9),
        entry(2, 4_000_000),
        entry(2, 120, 0x300000),
        entry(2, 90, 0x8000, bytes(8), compressed_size=9),
    )
    assert [damage(data) for data in (*sizes, *map(samples.fat_binary, entries))] == ["16"] * 6


def test_a_file_that_ends_before_its_section(samples: Any) -> None:
    data = samples.fat_binary(samples.Entry(2, 75))
    with pytest.raises(TorchwheelError, match="at byte 16, the file ends here, inside a fat binary"):
        list(FatBinaryReader(io.BytesIO(data[:40]), "lib.so", Allowance()).images(0, len(data)))


@pytest.mark.parametrize("data", [b"entries", b"empty"], ids=str)
def test_the_number_of_headers_is_bounded(samples: Any, data: bytes) -> None:
    binaries = (
        samples.fat_binary(*[samples.Entry(2, 75)] * 3) if data == b"entries" else samples.fat_binary() * 4
    )
    allowed, stream = Allowance(4), io.BytesIO(binaries)
    found = list(FatBinaryReader(stream, "lib.so", allowed).images(0, len(binaries)))
    assert (len(found), allowed.headers) == (3 if data == b"entries" else 0, 0)
    with pytest.raises(
        TorchwheelError, match="there are more than 100,000 sections, fat binaries and images"
    ):
        list(FatBinaryReader(stream, "lib.so", Allowance(3)).images(0, len(binaries)))


KINDS = {1: ImageKind.PTX, 2: ImageKind.SASS, 8: ImageKind.LTO_IR}
SUFFIXES = {"": 0, "a": 0x100000, "f": 0x200000}


@given(
    st.lists(
        st.lists(
            st.tuples(
                st.sampled_from(sorted(KINDS)),
                st.integers(10, 999),
                st.sampled_from(sorted(SUFFIXES)),
                st.integers(0, 5).map(lambda words: bytes(8 * words)),
                st.integers(0, 6).map(lambda words: bytes(8 * words)),
            ),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_what_is_packed_is_read(
    samples: Any, binaries: list[list[tuple[int, int, str, bytes, bytes]]]
) -> None:
    data = b"".join(
        samples.fat_binary(
            *(
                samples.Entry(kind, number, SUFFIXES[suffix], payload, header_extra=extra)
                for kind, number, suffix, payload, extra in entries
            )
        )
        for entries in binaries
    )
    expected = [
        (KINDS[kind], f"sm_{number}{suffix}", len(payload))
        for entries in binaries
        for kind, number, suffix, payload, _ in entries
    ]
    assert [(image.kind, image.architecture.sm, image.stored_size) for image in read(data)] == expected


def test_elf_and_pe_alike(samples: Any) -> None:
    entry = samples.Entry
    code = samples.fat_binary(entry(2, 90), entry(2, 120), entry(1, 120)) + samples.fat_binary(entry(2, 90))
    relocatable = samples.fat_binary(entry(2, 120), entry(8, 90))
    expected = (
        CodeImage(Architecture(9, 0), ImageKind.LTO_IR, True, 1, 8),
        CodeImage(Architecture(9, 0), ImageKind.SASS, False, 2, 16),
        CodeImage(Architecture(12, 0), ImageKind.PTX, False, 1, 8),
        CodeImage(Architecture(12, 0), ImageKind.SASS, False, 1, 8),
        CodeImage(Architecture(12, 0), ImageKind.SASS, True, 1, 8),
    )
    for make in (samples.elf, samples.pe):
        data = make({".text": b"x", ".nv_fatbin": code, "__nv_relfatbin": relocatable})
        assert read_library("library", io.BytesIO(data)).images == expected
    assert [image.label for image in expected] == ["lto90", "sm90", "ptx120", "sm120", "sm120"]
    assert [image.runs for image in expected] == [False, True, True, True, False]


def test_no_device_code(samples: Any, tmp_path: Path) -> None:
    script = tmp_path / "script ä.sh"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    assert read_library("library", script).images == ()
    assert read_library("library", io.BytesIO(samples.library())).images == ()


def test_overlapping_sections_are_refused(samples: Any) -> None:
    code = samples.fat_binary(samples.Entry(2, 90, payload=bytes(4000)))
    data = bytearray(samples.elf({".nv_fatbin": code, "__nv_relfatbin": bytes(8)}))
    (table,) = struct.unpack_from("<Q", data, 40)
    assert len(read_library("library", io.BytesIO(data)).images) == 1
    data[table + 2 * 64 + 24 : table + 2 * 64 + 40] = data[table + 64 + 24 : table + 64 + 40]
    with pytest.raises(TorchwheelError, match="its sections of device code overlap"):
        read_library("library", io.BytesIO(data))
