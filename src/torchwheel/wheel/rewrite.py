"""Adding files to a wheel's ``*.dist-info`` without touching the compressed bytes of any other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.wheel.archive import WheelArchive, open_wheel
from torchwheel.wheel.atomic import complete_file
from torchwheel.wheel.rawzip import EARLIEST, DateTime, RawMember, RawZipWriter, raw_members
from torchwheel.wheel.record import (
    RecordRow,
    missing_and_stale,
    read_record,
    render_record,
    row_for,
    signature_names,
)
from torchwheel.wheel.timestamps import source_date

_LAST_YEAR = 2107


def add_members(
    source: Path,
    destination: Path,
    members: Mapping[str, bytes],
    *,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Write a copy of a wheel with files added to its ``*.dist-info``, and RECORD renewed.

    Existing members keep their compressed bytes, order, times and permissions; their lines in RECORD are
    taken over. A file that is there already is replaced. RECORD comes last. Signatures of the old RECORD are
    left out.

    Args:
        source: the wheel.
        destination: where the new one goes; appears there only when complete. May be ``source``.
        members: content by path relative to ``*.dist-info``.
        environment: where SOURCE_DATE_EPOCH is looked for, which gives the new files their time (1980 without
            it); ``os.environ`` if None.

    Raises:
        TorchwheelError: ``source`` is damaged, disagrees with its RECORD, or holds what no wheel may hold; a
            path in ``members`` is not allowed; ``destination`` cannot be written. Nothing is left behind
            then.
    """
    date_time = _zip_time(source_date(os.environ if environment is None else environment))
    with complete_file(destination) as target, open_wheel(source) as archive, source.open("rb") as stream:
        added = {f"{archive.dist_info}/{path}": data for path, data in members.items()}
        _require_allowed(added, archive)
        _write(archive, stream, target, added, date_time)


def _write(
    archive: WheelArchive, stream: BinaryIO, target: BinaryIO, added: Mapping[str, bytes], date_time: DateTime
) -> None:
    rows = read_record(archive)
    if problems := tuple(missing_and_stale(archive, rows)):
        raise TorchwheelError(problems)
    record = f"{archive.dist_info}/RECORD"
    dropped = {record, *signature_names(archive), *added}
    writer = RawZipWriter(target)
    for member in _kept(archive, stream, dropped):
        writer.copy(member, stream, str(archive.path))
    for name, data in added.items():
        writer.add(name, data, date_time)
    kept_rows = [row for row in rows if row.path not in dropped]
    new_rows = [row_for(name, data) for name, data in added.items()]
    writer.add(record, render_record([*kept_rows, *new_rows, RecordRow(record, "", "")]), date_time)
    writer.finish()


def _kept(archive: WheelArchive, stream: BinaryIO, dropped: set[str]) -> list[RawMember]:
    members = raw_members(stream, archive.zip, str(archive.path))
    return [member for member in members if member.info.filename not in dropped]


def _require_allowed(added: Mapping[str, bytes], archive: WheelArchive) -> None:
    reserved = {f"{archive.dist_info}/RECORD", *signature_names(archive)}
    problems = [
        Problem(
            id="forbidden-member",
            what=f"{name!r} cannot be added to a wheel",
            remedy="give a relative path with '/' inside the dist-info folder, other than RECORD's",
            origin=str(archive.path),
        )
        for name in added
        if name in reserved or "\\" in name or str(PurePosixPath(name)) != name or ".." in name.split("/")
    ]
    if problems:
        raise TorchwheelError(problems)


def _zip_time(moment: datetime | None) -> DateTime:
    """The nearest moment that a zip archive can express, which is in 1980 to 2107."""
    if moment is None or moment.year < EARLIEST[0]:
        return EARLIEST
    year = min(moment.year, _LAST_YEAR)
    return (year, moment.month, moment.day, moment.hour, moment.minute, moment.second)
