"""Archives beyond the limits of the original zip format."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.rewrite import EARLIEST, RawMember, add_member, copy_members, raw_members

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
    with SparseFile(io.FileIO(target, "w+")) as stream, zipfile.ZipFile(stream, "w") as archive:
        copy_members([RawMember(info, 0)], Zeros(), "source", archive, stream)
        add_member(archive, "behind.txt", b"here", EARLIEST)
    with zipfile.ZipFile(target) as archive:
        large_info, behind = archive.infolist()
        assert (large_info.file_size, large_info.compress_size) == (5 * GIB, 5 * GIB)
        assert behind.header_offset > 5 * GIB
        assert archive.read(behind) == b"here"
        with archive.open(large_info) as member:
            assert member.read(100) == bytes(100)


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
