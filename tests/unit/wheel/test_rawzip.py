"""Archives beyond the limits of the original zip format."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import pytest

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.rawzip import EARLIEST, RawMember, RawZipWriter, raw_members

GIB = 1 << 30
ZEROS = bytes(1 << 20)


class Zeros(io.RawIOBase):
    """As many zeros as one reads."""

    def seek(self, offset: int, whence: int = 0) -> int:
        return offset

    def read(self, size: int = -1) -> bytes:
        return ZEROS[:size]


class SparseFile(io.BufferedRandom):
    """A file that does not store the zeros written to it."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if data != ZEROS[: len(data)]:
            return super().write(data)
        self.seek(len(data), io.SEEK_CUR)
        return len(data)


def test_more_than_four_gibibytes(tmp_path: Path) -> None:
    """A member of 5 GiB, and one that starts behind it."""
    target = tmp_path / "large.zip"
    info = zipfile.ZipInfo("large.bin", EARLIEST)
    info.file_size = info.compress_size = 5 * GIB
    info.CRC = 0
    with SparseFile(io.FileIO(target, "w+")) as stream:
        writer = RawZipWriter(stream)
        writer.copy(RawMember(info, b"large.bin", 0), Zeros(), "source")
        writer.add("behind.txt", b"here", EARLIEST)
        writer.finish()
    with zipfile.ZipFile(target) as archive:
        large_info, behind = archive.infolist()
        assert (large_info.file_size, large_info.compress_size) == (5 * GIB, 5 * GIB)
        assert behind.header_offset > 5 * GIB
        assert archive.read(behind) == b"here"
        with archive.open(large_info) as member:
            assert member.read(100) == bytes(100)


@pytest.mark.parametrize("size", [0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 0x100000000])
def test_headers_are_those_of_zipfile(size: int) -> None:
    """zipfile's own header for the same member; its limit is 2 GiB, so it is told where ZIP64 starts."""
    info = zipfile.ZipInfo("a.bin", (2024, 7, 1, 12, 30, 14))
    info.file_size = info.compress_size = size
    info.CRC = 0x12345678
    stream = io.BytesIO()
    writer = RawZipWriter(stream)
    with pytest.raises(TorchwheelError) if size else contextlib.nullcontext():
        writer.copy(RawMember(info, b"a.bin", 0), io.BytesIO(), "source")
    assert stream.getvalue() == info.FileHeader(zip64=size >= 0xFFFFFFFF)


@pytest.mark.parametrize(
    ("size", "wide"),
    [
        # With a thousandth more, which is what deflate may add, the first one reaches 0xFFFFFFFF.
        (4_290_777_084, True),
        (4_290_777_083, False),
    ],
)
def test_a_size_that_is_not_known_yet_has_room_for_what_deflate_adds(
    size: int, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = zipfile.ZipInfo("a.bin", EARLIEST)
    info.file_size, info.CRC = size, 0
    stream = io.BytesIO()
    RawZipWriter(stream).begin(info, RawMember(info, b"a.bin", 0))
    # Python 3.10 refuses 2 GiB without Zip64, and writes the sizes beside Zip64's; the length says which it is.
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 0xFFFFFFFE)
    assert len(stream.getvalue()) == len(info.FileHeader(zip64=wide))


@pytest.mark.parametrize("number", [0, 1])
def test_members_that_share_a_byte_with_what_follows_are_refused(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("first", b"one")
        archive.writestr("second", b"two")
    with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        assert [member.offset for member in raw_members(stream, archive, "source")] == [35, 74]
        info = archive.infolist()[number]
        info.compress_size += 1
        with pytest.raises(TorchwheelError, match=f"{info.filename} cannot be copied: its data reaches into"):
            raw_members(stream, archive, "source")


def test_names_keep_their_encoding() -> None:
    stream = io.BytesIO()
    writer = RawZipWriter(stream)
    writer.add("größe.txt", b"1", EARLIEST)
    writer.add("plain.txt", b"2", EARLIEST)
    writer.finish()
    with zipfile.ZipFile(stream) as archive:
        assert [(info.filename, info.flag_bits) for info in archive.infolist()] == [
            ("größe.txt", 0x800),
            ("plain.txt", 0),
        ]
