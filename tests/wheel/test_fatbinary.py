"""The container of device code, entry by entry."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.errors import TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.wheel import fatbinary
from torchwheel.wheel.fatbinary import Compression, Image, ImageKind, read_fat_binaries

REMEDY = "build or download the file again; if a newer CUDA toolkit made it, update torchwheel"
WHY = "its layout is not the one that CUDA toolkits up to 13 write"


def read(data: bytes, offset: int = 0) -> list[Image]:
    return list(read_fat_binaries(io.BytesIO(data), offset, len(data) - offset, "lib.so"))


def damage(data: bytes) -> str:
    """What is said to be wrong with a fat binary."""
    with pytest.raises(TorchwheelError) as caught:
        read(data)
    (problem,) = caught.value.problems
    assert (problem.id, problem.remedy, problem.why) == ("damaged-fat-binary", REMEDY, WHY)
    assert problem.origin == "lib.so"
    return problem.what.removeprefix("the device code cannot be read: ")


def test_every_kind_suffix_and_compression(samples: Any) -> None:
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
        Image(ImageKind.SASS, Architecture(7, 5), Compression.NONE, 8, 8),
        Image(ImageKind.SASS, Architecture(9, 0, "a"), Compression.NONE, 8, 8),
        Image(ImageKind.SASS, Architecture(10, 3, "f"), Compression.NONE, 8, 8),
        Image(ImageKind.PTX, Architecture(9, 0), Compression.ZSTD, 13, 600),
        Image(ImageKind.SASS, Architecture(12, 0), Compression.LZ4, 20, 99),
        Image(ImageKind.LTO_IR, Architecture(9, 0), Compression.ZSTD, 9, 80),
        Image(ImageKind.SASS, Architecture(8, 0), Compression.UNKNOWN, 9, 80),
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


def test_damage_is_described(samples: Any) -> None:
    entry = samples.Entry
    good = samples.fat_binary(entry(2, 75))
    assert damage(b"\x7fELF" + good[4:]) == (
        "at byte 0, a fat binary starts with 0xba55ed50, here is 0x464c457f"
    )
    assert damage(good[:4] + b"\2" + good[5:]) == (
        "at byte 0, the fat binary has version 2, known is version 1"
    )
    assert damage(good[:6] + b"\4" + good[7:]) == "at byte 0, a header of 4 bytes is too short"
    assert damage(good[:-1]) == "at byte 0, 72 bytes of entries reach past the end of the section"
    assert damage(good + b"\x50\xed\x55\xba") == "at byte 88, a header is cut off by the end of the section"
    assert damage(good[:20] + b"\x20" + good[21:]) == "at byte 16, an entry of 32 + 8 bytes does not fit"
    assert damage(good[:24] + b"\x10" + good[25:]) == "at byte 16, an entry of 64 + 16 bytes does not fit"
    assert damage(samples.fat_binary(entry(2, 9))) == "at byte 16, 9 is no number of an architecture"
    assert damage(samples.fat_binary(entry(2, 4_000_000))) == (
        "at byte 16, 4000000 is no number of an architecture"
    )
    assert damage(samples.fat_binary(entry(2, 120, 0x300000))) == (
        "at byte 16, sm_120 is marked as both `a` and `f`"
    )
    assert damage(samples.fat_binary(entry(2, 90, 0x8000, bytes(8), compressed_size=9))) == (
        "at byte 16, 9 compressed bytes exceed 8 stored ones"
    )


def test_a_file_that_ends_before_its_section(samples: Any) -> None:
    data = samples.fat_binary(samples.Entry(2, 75))
    with pytest.raises(TorchwheelError, match="at byte 16, the file ends here, inside a fat binary"):
        list(read_fat_binaries(io.BytesIO(data[:40]), 0, len(data)))


def test_the_number_of_images_is_bounded(samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fatbinary, "MAX_IMAGES", 2)
    assert len(read(samples.fat_binary(*[samples.Entry(2, 75)] * 2))) == 2
    assert damage(samples.fat_binary(*[samples.Entry(2, 75)] * 3)) == (
        "at byte 160, there are more than 2 images"
    )


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
    assert [(image.kind, image.architecture.sm, image.size) for image in read(data)] == expected


@given(st.data())
def test_mutations_raise_nothing_else(samples: Any, data: st.DataObject) -> None:
    good = samples.fat_binary(*(samples.Entry(kind, 90 + 10 * kind, 0x100000) for kind in (1, 2, 8)))
    mutated = bytearray(good * 2)
    for position in data.draw(st.lists(st.integers(0, len(mutated) - 1), max_size=6)):
        mutated[position] = data.draw(st.integers(0, 255))
    del mutated[data.draw(st.integers(0, len(mutated))) :]
    try:
        images = read(bytes(mutated))
    except TorchwheelError as error:
        assert [problem.id for problem in error.problems] == ["damaged-fat-binary"]
    else:
        assert len(images) <= 6
