"""Changing a wheel's ``*.dist-info`` and the names of its folders without touching the compressed bytes of the rest.

``zipfile`` can copy a member only by inflating and deflating it: 14 s for a PyTorch wheel. Here it writes the headers
and the new members, and the bytes of the others are written past it.
Source: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3 to 4.5.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import BinaryIO

from torchwheel.reporting.errors import TorchwheelError, refusal, stop_on
from torchwheel.reporting.terminal import join_items
from torchwheel.reproducible import source_date
from torchwheel.system.files import output_file, replace_path
from torchwheel.system.paths import is_file
from torchwheel.wheel.archive import (
    RecordRow,
    WheelArchive,
    missing_and_stale,
    open_wheel,
    parse_file_name,
    read_record,
    render_record,
    row_for,
    signature_names,
)
from torchwheel.wheel.metadata import parse_metadata_text, read_metadata_text, with_bounds

_LOCAL = struct.Struct("<4s2xHH16xHH")  # signature, flags, method, lengths of the name and the extra field
_UTF8_NAME = 0x0800
# Only with this host system does the format define the upper half of the attributes as a Unix mode.
_UNIX = 3
_LARGE = 2_000_000_000  # zipfile needs ZIP64 from 2 GiB on, and deflated bytes may be 0.1 % more
_CHUNK = 1 << 20
EARLIEST, _LAST_YEAR = (1980, 1, 1, 0, 0, 0), 2107  # that a zip archive can express

DateTime = tuple[int, int, int, int, int, int]


@dataclass(frozen=True)
class RawMember:
    info: zipfile.ZipInfo
    offset: int


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
            raise _inconsistent_error(member.info, "its data reaches into what follows", origin)
    return members


def _raw_member(stream: BinaryIO, info: zipfile.ZipInfo, origin: str) -> RawMember:
    stream.seek(info.header_offset)
    data = stream.read(_LOCAL.size)
    if len(data) != _LOCAL.size:
        raise _inconsistent_error(info, "its header is cut off", origin)
    signature, flags, method, name_length, extra_length = _LOCAL.unpack(data)
    if signature != b"PK\3\4":
        raise _inconsistent_error(info, "there is no header where the table of contents says", origin)
    # A streaming reader trusts this header and zipfile the table, so both must name the same member. Size and
    # checksum are not compared: they are zero here if a data descriptor follows the data.
    # Without the flag the format's encoding is the IBM PC's, and zipfile decodes names with it.
    name = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8_NAME else "cp437")
    expected = (name, info.compress_type, info.flag_bits & _UTF8_NAME)
    if (stream.read(name_length), method, flags & _UTF8_NAME) != expected:
        raise _inconsistent_error(info, "its header and the table of contents differ", origin)
    # The extra field of this header often differs in length from the one in the table of contents.
    return RawMember(info, info.header_offset + _LOCAL.size + name_length + extra_length)


def _inconsistent_error(info: zipfile.ZipInfo, detail: str, origin: str) -> TorchwheelError:
    return refusal("damaged-wheel/copy", origin=origin, member=info.filename, reason=detail)


def add_member(archive: zipfile.ZipFile, name: str, data: bytes, date_time: DateTime) -> None:
    """Append a new file, deflated, with the permissions 644."""
    info = zipfile.ZipInfo(name, date_time)
    info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, _UNIX
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    archive.writestr(info, data)


def copy_members(
    members: Iterable[RawMember], source: BinaryIO, origin: str, archive: zipfile.ZipFile, target: BinaryIO
) -> None:
    """Append members whose bytes are compressed already; without extra fields (users, precise times) and comments."""
    for member in members:
        info = member.info
        own = zipfile.ZipInfo(info.filename, info.date_time)
        large = max(info.file_size, info.compress_size) > _LARGE
        # zipfile takes it for an empty stored file, and goes on behind what was written meanwhile.
        with archive.open(own, "w", force_zip64=large):
            size = sum(map(target.write, _read_pieces(member, source, origin)))
        for name in ("compress_type", "create_system", "internal_attr", "external_attr", "CRC", "file_size"):
            setattr(own, name, getattr(info, name))
        own.compress_size = size
        end = target.tell()
        target.seek(own.header_offset)
        target.write(own.FileHeader(large))
        target.seek(end)


def _read_pieces(member: RawMember, source: BinaryIO, origin: str) -> Iterator[bytes]:
    for start in range(0, member.info.compress_size, _CHUNK):
        # Others read the file in between.
        source.seek(member.offset + start)
        length = min(_CHUNK, member.info.compress_size - start)
        data = source.read(length)
        if len(data) != length:
            raise _inconsistent_error(member.info, "the file ends inside it", origin)
        yield data


@dataclass(frozen=True)
class Changes:
    members: Mapping[str, bytes]
    folders: Mapping[str, str] = field(default_factory=dict)

    def renamed(self, path: str) -> str:
        folder, slash, rest = path.partition("/")
        return f"{self.folders.get(folder, folder) if slash else folder}{slash}{rest}"


def rewrite_wheel(
    source: Path,
    target: Path,
    find_changes: Callable[[WheelArchive], Changes],
    environment: Mapping[str, str],
) -> None:
    """Write a copy of a wheel with changes, and RECORD renewed.

    Existing members keep their compressed bytes, order, times, permissions and lines in RECORD, which comes last; new
    ones are of 1980. Where SOURCE_DATE_EPOCH is set, all have that time, and of their permissions only whether they are
    programs. Signatures of the old RECORD are left out.
    """
    moment = source_date(environment)
    with output_file(target) as copy, open_wheel(source) as archive, source.open("rb") as stream:
        _write(archive, stream, copy, find_changes(archive), moment)


def _write(
    archive: WheelArchive, stream: BinaryIO, target: BinaryIO, changes: Changes, moment: datetime | None
) -> None:
    date_time = _zip_time(moment)
    rows, record = read_record(archive), f"{archive.dist_info}/RECORD"
    # The new RECORD keeps the old lines, so it would pass on what the old one lacks.
    stop_on(missing_and_stale(archive, rows))
    added = {f"{archive.dist_info}/{path}": data for path, data in changes.members.items()}
    # A signature of the old RECORD does not fit the new one.
    dropped = {record, *signature_names(archive), *added}
    assert isinstance(archive.source, zipfile.ZipFile)
    members = raw_members(stream, archive.source, str(archive.path))
    copies = [
        _changed_member(member, changes, date_time if moment else None)
        for member in members
        if member.info.filename not in dropped
    ]
    counts = Counter(member.info.filename for member in copies)
    # A renamed folder may fall together with one that is there.
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise refusal("forbidden-member/twice", origin=archive.path, names=join_items(twice))
    new_rows = [
        *(row._replace(path=changes.renamed(row.path)) for row in rows if row.path not in dropped),
        *(row_for(changes.renamed(name), data) for name, data in added.items()),
        RecordRow(changes.renamed(record), "", ""),
    ]
    # At the end, as PEP 427 encourages: metadata can then be amended without writing the rest again.
    last = {**added, record: render_record(new_rows)}
    with zipfile.ZipFile(target, "w") as copy:
        copy_members(copies, stream, str(archive.path), copy, target)
        for name, data in last.items():
            add_member(copy, changes.renamed(name), data, date_time)


def _changed_member(member: RawMember, changes: Changes, date_time: DateTime | None) -> RawMember:
    """A member under its new name; with a time, without what depends on the umask and the clock."""
    # A copy, because zipfile shares this object with the open archive.
    info = copy(member.info)
    info.filename = changes.renamed(info.filename)
    if date_time is not None:
        # pip makes a regular file with any of these bits executable, and ignores all other permissions.
        program = info.external_attr >> 16 & 0o111
        info.external_attr = (stat.S_IFREG | (0o755 if program else 0o644)) << 16
        info.date_time = date_time
    return RawMember(info, member.offset)


def _zip_time(moment: datetime | None) -> DateTime:
    """The nearest moment that a zip archive can express."""
    if moment is None or moment.year < EARLIEST[0]:
        return EARLIEST
    year = min(moment.year, _LAST_YEAR)
    return (year, moment.month, moment.day, moment.hour, moment.minute, moment.second)


@dataclass(frozen=True)
class Relabelling:
    """What a wheel is to say of itself; ``version`` is in its normal form, and has its local label."""

    version: str | None = None
    requires: tuple[str, ...] = ()
    tag: str | None = None
    skip_check: tuple[str, ...] = ()

    def file_name(self, old: str) -> str:
        name, version, *build_and_tag = old.removesuffix(".whl").split("-")
        if self.tag is not None:
            # The last three parts are the tag; a build number may precede them.
            build_and_tag[-3:] = [self.tag]
        return "-".join([name, self.version or version, *build_and_tag]) + ".whl"

    def folders(self, dist_info: str) -> dict[str, str]:
        """The new names of ``NAME-VERSION.dist-info`` and ``NAME-VERSION.data``."""
        old = dist_info.removesuffix(".dist-info")
        new = old if self.version is None else f"{old.rpartition('-')[0]}-{self.version}"
        return {old + suffix: new + suffix for suffix in (".dist-info", ".data")}

    def metadata(self, old: bytes, origin: str) -> bytes:
        text = parse_metadata_text(old)
        if self.version is not None:
            text = text.replacing("Version", [self.version])
        return bytes(with_bounds(text, self.requires, origin, self.skip_check))

    def wheel(self, old: bytes) -> bytes:
        if self.tag is None:
            return old
        expanded = ["-".join(tag) for tag in product(*(part.split(".") for part in self.tag.split("-")))]
        return bytes(parse_metadata_text(old).replacing("Tag", expanded))


def relabel_wheel(
    source: Path, destination: Path, relabelling: Relabelling, *, environment: Mapping[str, str]
) -> Path:
    """Write a copy of a wheel that says other things of itself, under the name that goes with them."""
    parse_file_name(source)
    target = destination / relabelling.file_name(source.name)

    def make_changes(archive: WheelArchive) -> Changes:
        old = {name: bytes(read_metadata_text(archive, name)) for name in ("METADATA", "WHEEL")}
        metadata = relabelling.metadata(old["METADATA"], str(archive.path))
        new = {"METADATA": metadata, "WHEEL": relabelling.wheel(old["WHEEL"])}
        changed = {name: content for name, content in new.items() if content != old[name]}
        return Changes(changed, relabelling.folders(archive.dist_info))

    rewrite_wheel(source, target, make_changes, environment=environment)
    return target


def relabel_metadata(folder: Path, relabelling: Relabelling) -> str:
    """Make a prepared ``*.dist-info`` say, byte for byte, what the wheel will say; return its new name."""
    metadata, wheel = folder / "METADATA", folder / "WHEEL"
    new = {metadata: relabelling.metadata(metadata.read_bytes(), str(metadata))}
    if is_file(wheel):
        new[wheel] = relabelling.wheel(wheel.read_bytes())
    for path, content in new.items():
        with output_file(path) as stream:
            stream.write(content)
    renamed = folder.with_name(relabelling.folders(folder.name)[folder.name])
    replace_path(folder, renamed)
    return renamed.name
