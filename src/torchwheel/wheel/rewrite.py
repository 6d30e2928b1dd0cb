"""Changing a wheel's ``*.dist-info`` and the names of its folders without touching the compressed bytes of the rest."""

from __future__ import annotations

import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import join_items
from torchwheel.reproducible import source_date
from torchwheel.system.files import output_file
from torchwheel.wheel.archive import WheelArchive, open_wheel
from torchwheel.wheel.rawzip import EARLIEST, DateTime, RawMember, add_member, copy_members, raw_members
from torchwheel.wheel.record import (
    RecordRow,
    missing_and_stale,
    read_record,
    render_record,
    row_for,
    signature_names,
)

_LAST_YEAR = 2107


@dataclass(frozen=True)
class Changes:
    """What a copy of a wheel has that the wheel has not."""

    members: Mapping[str, bytes]
    folders: Mapping[str, str] = field(default_factory=dict)

    def renamed(self, path: str) -> str:
        """The path of a member in the copy."""
        folder, slash, rest = path.partition("/")
        return f"{self.folders.get(folder, folder) if slash else folder}{slash}{rest}"


def add_members(
    source: Path,
    destination: Path,
    members: Mapping[str, bytes],
    *,
    environment: Mapping[str, str],
) -> None:
    """Write a copy of a wheel with files added to its ``*.dist-info``: :func:`rewrite_wheel`."""
    rewrite_wheel(source, destination, lambda _: Changes(members), environment=environment)


def rewrite_wheel(
    source: Path,
    destination: Path,
    changes_of: Callable[[WheelArchive], Changes],
    *,
    environment: Mapping[str, str],
) -> None:
    """Write a copy of a wheel with changes, and RECORD renewed.

    Existing members keep their compressed bytes, order, times, permissions and lines in RECORD, which comes last.
    Where SOURCE_DATE_EPOCH is set, they have no other time, and of their permissions only whether they are programs.
    A file that is there already is replaced. Signatures of the old RECORD are left out.

    Args:
        environment: where SOURCE_DATE_EPOCH, the time of the new files (else 1980), is looked for.
    """
    moment = source_date(environment)
    date_time = _zip_time(moment)
    with output_file(destination) as target, open_wheel(source) as archive, source.open("rb") as stream:
        _write(archive, stream, target, changes_of(archive), date_time, plain=moment is not None)


def _write(
    archive: WheelArchive,
    stream: BinaryIO,
    target: BinaryIO,
    changes: Changes,
    date_time: DateTime,
    *,
    plain: bool,
) -> None:
    added = {f"{archive.dist_info}/{path}": data for path, data in changes.members.items()}
    rows = read_record(archive)
    # The new RECORD keeps the old lines, so it would pass on what the old one lacks.
    if problems := tuple(missing_and_stale(archive, rows)):
        raise TorchwheelError(problems)
    record = f"{archive.dist_info}/RECORD"
    # A signature of the old RECORD does not fit the new one.
    dropped = {record, *signature_names(archive), *added}
    kept = _copy_kept(archive, stream, dropped)
    _require_distinct([member.info.filename for member in kept], changes, archive)
    copies = (_rename_member(_make_plain(member, date_time) if plain else member, changes) for member in kept)
    new_rows = [
        *(
            RecordRow(changes.renamed(row.path), row.digest, row.size)
            for row in rows
            if row.path not in dropped
        ),
        *(row_for(changes.renamed(name), data) for name, data in added.items()),
        RecordRow(changes.renamed(record), "", ""),
    ]
    # At the end, as PEP 427 encourages: metadata can then be amended without writing the rest again.
    last = {**added, record: render_record(new_rows)}
    with zipfile.ZipFile(target, "w") as copy:
        copy_members(copies, stream, str(archive.path), copy, target)
        for name, data in last.items():
            add_member(copy, changes.renamed(name), data, date_time)


def _copy_kept(archive: WheelArchive, stream: BinaryIO, dropped: set[str]) -> list[RawMember]:
    assert isinstance(archive.source, zipfile.ZipFile)
    members = raw_members(stream, archive.source, str(archive.path))
    return [member for member in members if member.info.filename not in dropped]


def _make_plain(member: RawMember, date_time: DateTime) -> RawMember:
    """A member without what depends on the umask and the clock."""
    # pip makes a regular file with any of these bits executable, and ignores all other permissions.
    program = member.info.external_attr >> 16 & 0o111
    mode = stat.S_IFREG | (0o755 if program else 0o644)
    return member.replacing(date_time=date_time, external_attr=mode << 16)


def _rename_member(member: RawMember, changes: Changes) -> RawMember:
    name = changes.renamed(member.info.filename)
    return member if name == member.info.filename else member.replacing(filename=name)


def _require_distinct(names: Sequence[str], changes: Changes, archive: WheelArchive) -> None:
    """No renamed folder may fall together with one that is there."""
    renamed = [changes.renamed(name) for name in names]
    if len(set(renamed)) == len(names):
        return
    twice = sorted(name for name, count in Counter(renamed).items() if count > 1)
    raise refusal("forbidden-member/twice", origin=archive.path, names=join_items(twice))


def _zip_time(moment: datetime | None) -> DateTime:
    """The nearest moment that a zip archive can express, which is in 1980 to 2107."""
    if moment is None or moment.year < EARLIEST[0]:
        return EARLIEST
    year = min(moment.year, _LAST_YEAR)
    return (year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
