"""Zip archives copied member by member, with their compressed bytes as they are.

``zipfile`` can copy a member only by inflating and deflating it: 14 s for a PyTorch wheel. Here it writes the headers
and the new members, and the bytes of the others are written past it.

Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3 to 4.5.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import BinaryIO

from torchwheel.reporting.errors import TorchwheelError, refusal

_LOCAL = struct.Struct("<4s2xHH16xHH")  # signature, flags, method, lengths of the name and the extra field
_UTF8_NAME = 0x0800
# Only with this host system does the format define the upper half of the attributes as a Unix mode.
_UNIX = 3
_REGULAR_644 = 0o100644 << 16
_COPIED = ("compress_type", "create_system", "internal_attr", "external_attr", "CRC", "file_size")
_LARGE = 2_000_000_000
"""zipfile needs ZIP64 from 2 GiB on, and deflated bytes may be 0.1 % more."""

_CHUNK = 1 << 20

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip archive can express."""

DateTime = tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class RawMember:
    """A member of an archive, and where its compressed bytes are."""

    info: zipfile.ZipInfo
    offset: int

    def replacing(self, **changes: object) -> RawMember:
        """The same bytes with another name, time, attributes or method."""
        # A copy, because zipfile shares this object with the open archive.
        info = copy(self.info)
        for name, value in changes.items():
            setattr(info, name, value)
        return RawMember(info, self.offset)


def raw_members(stream: BinaryIO, archive: zipfile.ZipFile, origin: str) -> tuple[RawMember, ...]:
    """The members of an archive in the order in which their data stands in the file."""
    # The table of contents may be in another order; overlaps show only in the order of the data.
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    members = tuple(_raw_member(stream, info, origin) for info in infos)
    ends = [member.offset + member.info.compress_size for member in members]
    starts = [member.info.header_offset for member in members[1:]] + [archive.start_dir]
    for member, end, start in zip(members, ends, starts, strict=True):
        # Members that share bytes would let a small archive grow with every copy.
        if end > start:
            raise _inconsistent_error(member, "its data reaches into what follows", origin)
    return members


def _raw_member(stream: BinaryIO, info: zipfile.ZipInfo, origin: str) -> RawMember:
    stream.seek(info.header_offset)
    data = stream.read(_LOCAL.size)
    member = RawMember(info, info.header_offset + _LOCAL.size)
    if len(data) != _LOCAL.size:
        raise _inconsistent_error(member, "its header is cut off", origin)
    signature, flags, method, name_length, extra_length = _LOCAL.unpack(data)
    if signature != b"PK\3\4":
        raise _inconsistent_error(member, "there is no header where the table of contents says", origin)
    # A streaming reader trusts this header and zipfile the table, so both must name the same member. Size and
    # checksum are not compared: they are zero here if a data descriptor follows the data.
    # Without the flag the format's encoding is the IBM PC's, and zipfile decodes names with it.
    name = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8_NAME else "cp437")
    expected = (name, info.compress_type, info.flag_bits & _UTF8_NAME)
    if (stream.read(name_length), method, flags & _UTF8_NAME) != expected:
        raise _inconsistent_error(member, "its header and the table of contents differ", origin)
    # The extra field of this header often differs in length from the one in the table of contents.
    return RawMember(info, member.offset + name_length + extra_length)


def _inconsistent_error(member: RawMember, detail: str, origin: str) -> TorchwheelError:
    return refusal("damaged-wheel/copy", origin=origin, member=member.info.filename, reason=detail)


def add_member(archive: zipfile.ZipFile, name: str, data: bytes, date_time: DateTime) -> None:
    """Append a new file, deflated, with the permissions 644."""
    info = zipfile.ZipInfo(name, date_time)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = _UNIX
    info.external_attr = _REGULAR_644
    archive.writestr(info, data)


def copy_members(
    members: Iterable[RawMember], source: BinaryIO, origin: str, archive: zipfile.ZipFile, target: BinaryIO
) -> None:
    for member in members:
        _write_raw(member.info, _read_pieces(member, source, origin), archive, target)


def _read_pieces(member: RawMember, source: BinaryIO, origin: str) -> Iterator[bytes]:
    """The compressed bytes of a member."""
    for start in range(0, member.info.compress_size, _CHUNK):
        # Others read the file in between.
        source.seek(member.offset + start)
        length = min(_CHUNK, member.info.compress_size - start)
        data = source.read(length)
        if len(data) != length:
            raise _inconsistent_error(member, "the file ends inside it", origin)
        yield data


def _write_raw(
    info: zipfile.ZipInfo, pieces: Iterable[bytes], archive: zipfile.ZipFile, target: BinaryIO
) -> None:
    """Append a member whose bytes are compressed already; without extra fields (users, precise times) and comments."""
    own = zipfile.ZipInfo(info.filename, info.date_time)
    large = max(info.file_size, info.compress_size) > _LARGE
    # zipfile takes it for an empty stored file, and goes on behind what was written meanwhile.
    with archive.open(own, "w", force_zip64=large):
        size = sum(map(target.write, pieces))
    for name in _COPIED:
        setattr(own, name, getattr(info, name))
    own.compress_size = size
    end = target.tell()
    target.seek(own.header_offset)
    target.write(own.FileHeader(large))
    target.seek(end)
