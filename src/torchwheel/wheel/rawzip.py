"""Zip archives member by member, without uncompressing anything.

``zipfile`` can read a member only by inflating it and write one only by deflating it: 14 s for a PyTorch
wheel. Here the compressed bytes are copied. What is written is plain: sizes in front of the data instead of
in data descriptors, ZIP64 only where a number needs it, no extra fields (users, precise times) and no
comments.

Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3 to 4.5.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from torchwheel.reporting.errors import TorchwheelError, refusal

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sBBHHHHHIIIHHHHHII")
_END = struct.Struct("<4sHHHHIIH")
_END_64 = struct.Struct("<4sQHHIIQQQQ")
_END_64_LOCATOR = struct.Struct("<4sIQI")
_EXTRA = struct.Struct("<HH")

# These values say that the real number is in ZIP64's structures, so they cannot be stored themselves.
_MAX_16 = 0xFFFF
_MAX_32 = 0xFFFFFFFF
_ZIP64_VERSION = 45
_ZIP64_EXTRA = 1

_DATA_DESCRIPTOR = 0x0008
_UTF8_NAME = 0x0800
# Only with this host system does the format define the upper half of the attributes as a Unix mode.
_UNIX = 3
_REGULAR_644 = 0o100644 << 16
# Deflate came with version 2.0 of the format, ZIP64 with 4.5.
_DEFLATE_VERSION = 20

_CHUNK = 1 << 20

# The first moment that a zip archive can express.
EARLIEST = (1980, 1, 1, 0, 0, 0)

DateTime = tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class RawMember:
    """What the table of contents says of a member, and where its compressed bytes are.

    Attributes:
        info: the entry of the table of contents.
        name: the name's bytes as stored.
        offset: first compressed byte in the archive.
    """

    info: zipfile.ZipInfo
    name: bytes
    offset: int

    def renamed(self, name: str) -> RawMember:
        """The same bytes under another name, which is stored in the encoding of the one before.

        Raises:
            UnicodeEncodeError: that encoding has no such name.
        """
        return replace(self, name=name.encode(_name_encoding(self.info)))


def raw_members(stream: BinaryIO, archive: zipfile.ZipFile, origin: str) -> tuple[RawMember, ...]:
    """The members of an archive in the order in which their data stands in the file.

    Args:
        archive: the same file, opened by zipfile.
    """
    # The table of contents may be in another order; overlaps show only in the order of the data.
    infos = sorted(archive.infolist(), key=lambda info: info.header_offset)
    members = tuple(_raw_member(stream, info, origin) for info in infos)
    ends = [member.offset + member.info.compress_size for member in members]
    starts = [member.info.header_offset for member in members[1:]] + [archive.start_dir]
    for member, end, start in zip(members, ends, starts, strict=True):
        # Members that share bytes would let a small archive grow with every copy.
        if end > start:
            raise _inconsistent_error(member.info, "its data reaches into what follows", origin)
    return members


def _raw_member(stream: BinaryIO, info: zipfile.ZipInfo, origin: str) -> RawMember:
    stream.seek(info.header_offset)
    data = stream.read(_LOCAL.size)
    if len(data) != _LOCAL.size:
        raise _inconsistent_error(info, "its header is cut off", origin)
    signature, _, flags, method, _, _, _, _, _, name_length, extra_length = _LOCAL.unpack(data)
    if signature != b"PK\3\4":
        raise _inconsistent_error(info, "there is no header where the table of contents says", origin)
    name = stream.read(name_length)
    # A streaming reader trusts this header and zipfile the table, so both must name the same member. Size and
    # checksum are not compared: they are zero here if a data descriptor follows the data.
    same = (name, method, flags & _UTF8_NAME)
    if same != (
        info.orig_filename.encode(_name_encoding(info)),
        info.compress_type,
        info.flag_bits & _UTF8_NAME,
    ):
        raise _inconsistent_error(info, "its header and the table of contents differ", origin)
    # The extra field of this header often differs in length from the one in the table of contents.
    return RawMember(info, name, info.header_offset + _LOCAL.size + name_length + extra_length)


def _name_encoding(info: zipfile.ZipInfo) -> str:
    # Without the flag the format's encoding is the IBM PC's, and zipfile decodes names with it.
    return "utf-8" if info.flag_bits & _UTF8_NAME else "cp437"


def _inconsistent_error(info: zipfile.ZipInfo, detail: str, origin: str) -> TorchwheelError:
    return refusal("damaged-wheel/copy", origin=origin, member=info.filename, reason=detail)


class RawZipWriter:
    """Writes a zip archive from members of others and from new files.

    Args:
        stream: where to write, from its current position, which must be the start of the archive.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._offset = 0
        self._table = bytearray()
        self._count = 0
        self.open_member: RawMember | None = None
        """What :meth:`begin` was called for, until :meth:`end`."""
        self._open = (zipfile.ZipInfo(), b"", 0)

    def copy(self, member: RawMember, source: BinaryIO, origin: str) -> None:
        """Append a member of another archive as it is."""
        self._start(member.info, member.name)
        source.seek(member.offset)
        left = member.info.compress_size
        while left:
            chunk = source.read(min(_CHUNK, left))
            if not chunk:
                raise _inconsistent_error(member.info, "the file ends inside it", origin)
            self._write(chunk)
            left -= len(chunk)

    def add(self, name: str, data: bytes, date_time: DateTime) -> None:
        """Append a new file, deflated, with the permissions 644."""
        # Negative: raw deflate, because zip has a checksum of its own in place of zlib's header and trailer.
        compressor = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
        compressed = compressor.compress(data) + compressor.flush()
        info = zipfile.ZipInfo(name, date_time)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.create_system = _UNIX
        info.create_version = info.extract_version = _DEFLATE_VERSION
        info.external_attr = _REGULAR_644
        info.flag_bits = 0 if name.isascii() else _UTF8_NAME
        info.CRC = zlib.crc32(data)
        info.file_size = len(data)
        info.compress_size = len(compressed)
        self._start(info, name.encode("utf-8"))
        self._write(compressed)

    def begin(self, info: zipfile.ZipInfo, member: RawMember) -> None:
        """Start a member whose compressed size is not known yet; its bytes follow in :meth:`append`."""
        self.open_member = member
        info.compress_size = 0
        self._open = (info, member.name, self._offset)
        # end() writes it again with the compressed size, so whether it has room for ZIP64 is decided before that.
        self._write(_local_header(info, member.name, large=_may_be_large(info)))

    def append(self, data: bytes) -> None:
        """Write compressed bytes of the member that was begun."""
        self._open[0].compress_size += len(data)
        self._write(data)

    def end(self) -> None:
        """End the member that was begun: its header gets its size."""
        info, name, start = self._open
        self._stream.seek(start)
        self._stream.write(_local_header(info, name, large=_may_be_large(info)))
        self._stream.seek(self._offset)
        self._table += _central_header(info, name, start)
        self._count += 1
        self.open_member = None

    def finish(self) -> None:
        """Write the table of contents."""
        start, size = self._offset, len(self._table)
        self._write(bytes(self._table))
        if self._count >= _MAX_16 or start >= _MAX_32 or size >= _MAX_32:
            end = self._offset
            version = _ZIP64_VERSION
            count = self._count
            rest = _END_64.size - 12  # without the signature and this number
            self._write(_END_64.pack(b"PK\6\6", rest, version, version, 0, 0, count, count, size, start))
            self._write(_END_64_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        count = min(self._count, _MAX_16)
        self._write(_END.pack(b"PK\5\6", 0, 0, count, count, min(size, _MAX_32), min(start, _MAX_32), 0))

    def _start(self, info: zipfile.ZipInfo, name: bytes) -> None:
        self._table += _central_header(info, name, self._offset)
        self._count += 1
        self._write(_local_header(info, name))

    def _write(self, data: bytes) -> None:
        self._stream.write(data)
        self._offset += len(data)


def read_stored(member: RawMember, source: BinaryIO, origin: str, size: int) -> Iterator[bytes]:
    """The content of a member that is stored uncompressed, in pieces of ``size`` bytes."""
    source.seek(member.offset)
    left, checksum = member.info.file_size, 0
    while left:
        data = source.read(min(size, left))
        left -= len(data)
        checksum = zlib.crc32(data, checksum)
        if not data:
            raise _inconsistent_error(member.info, "the file ends inside it", origin)
        # The copy keeps the original's checksum, so damage would otherwise show only when it is installed.
        if not left and checksum != member.info.CRC:
            raise _inconsistent_error(member.info, "its bytes do not have its checksum", origin)
        yield data


def _may_be_large(info: zipfile.ZipInfo) -> bool:
    """Whether what is deflated may take 4 GiB: bytes that cannot be compressed grow by less than 0.1 %."""
    return info.file_size + (info.file_size >> 10) >= _MAX_32


def _local_header(info: zipfile.ZipInfo, name: bytes, *, large: bool = False) -> bytes:
    sizes = (info.file_size, info.compress_size)
    extra = b""
    if large or max(sizes) >= _MAX_32:
        # In front of the data both sizes are there or none.
        extra = _zip64_extra(sizes)
    return (
        _LOCAL.pack(
            b"PK\3\4",
            _extract_version(info, extra),
            # The sizes are in this header, so no descriptor follows the data, even if the original had one.
            info.flag_bits & ~_DATA_DESCRIPTOR,
            info.compress_type,
            *_dos_time(info),
            info.CRC,
            _MAX_32 if extra else info.compress_size,
            _MAX_32 if extra else info.file_size,
            len(name),
            len(extra),
        )
        + name
        + extra
    )


def _central_header(info: zipfile.ZipInfo, name: bytes, offset: int) -> bytes:
    numbers = (info.file_size, info.compress_size, offset)
    # Only what does not fit may be in this extra field, and in this order.
    large = [number for number in numbers if number >= _MAX_32]
    extra = _zip64_extra(large) if large else b""
    return (
        _CENTRAL.pack(
            b"PK\1\2",
            info.create_version,
            info.create_system,
            _extract_version(info, extra),
            info.flag_bits & ~_DATA_DESCRIPTOR,
            info.compress_type,
            *_dos_time(info),
            info.CRC,
            min(info.compress_size, _MAX_32),
            min(info.file_size, _MAX_32),
            len(name),
            len(extra),
            0,
            0,
            info.internal_attr,
            info.external_attr,
            min(offset, _MAX_32),
        )
        + name
        + extra
    )


def _extract_version(info: zipfile.ZipInfo, extra: bytes) -> int:
    return max(info.extract_version, _ZIP64_VERSION) if extra else info.extract_version


def _zip64_extra(numbers: Iterable[int]) -> bytes:
    data = b"".join(number.to_bytes(8, "little") for number in numbers)
    return _EXTRA.pack(_ZIP64_EXTRA, len(data)) + data


def _dos_time(info: zipfile.ZipInfo) -> tuple[int, int]:
    year, month, day, hour, minute, second = info.date_time
    # The format has five bits for seconds, so it counts them in pairs.
    return hour << 11 | minute << 5 | second // 2, (year - 1980) << 9 | month << 5 | day
