"""RECORD, the list of files, hashes and sizes inside a wheel; and an installed package, read as a wheel is.

Source: https://packaging.python.org/specifications/recording-installed-packages/#the-record-file
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.reporting.terminal import join_items
from torchwheel.system.paths import find_below, is_dir, is_file
from torchwheel.wheel.archive import WheelArchive, open_wheel, oversized_error
from torchwheel.wheel.bounded_file import MEMBERS, RECORD_BYTES

# A signature cannot be in the list that it signs.
SIGNATURES = ("RECORD.jws", "RECORD.p7s")
# The specification asks for sha256 or better; of better ones it guarantees none but these.
_ALGORITHMS = ("sha256", "sha384", "sha512")


@dataclass(frozen=True)
class RecordRow:
    """One line of RECORD.

    Attributes:
        digest: ``sha256=`` and the hash in URL-safe base64 without padding; empty for RECORD itself.
    """

    path: str
    digest: str
    size: str

    @property
    def algorithm(self) -> str:
        return self.digest.partition("=")[0]

    def describes(self, chunks: Iterable[bytes]) -> bool:
        """Whether a content has this hash, whose algorithm is one of SHA-2."""
        digest = hashlib.new(self.algorithm)
        for chunk in chunks:
            digest.update(chunk)
        return self.digest == f"{self.algorithm}={_encode_digest(digest.digest())}"


def row_for(path: str, data: bytes) -> RecordRow:
    return RecordRow(path, f"sha256={_encode_digest(hashlib.sha256(data).digest())}", str(len(data)))


def read_record(archive: WheelArchive) -> tuple[RecordRow, ...]:
    name = f"{archive.dist_info}/RECORD"
    return parse_record(archive.read(name, RECORD_BYTES), f"{archive.path}: {name}")


def parse_record(data: bytes, origin: str) -> tuple[RecordRow, ...]:
    # csv itself must see the line ends, because a quoted name may contain one.
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    rows: list[RecordRow] = []
    try:
        for line, row in enumerate(csv.reader(text)):
            if line > MEMBERS:
                raise oversized_error(f"RECORD has more than {MEMBERS:,} lines; no honest one has", origin)
            if len(row) not in (0, 3):
                raise _malformed_error(f"{str(row)[:200]} has not three fields", origin)
            rows += [RecordRow(*row)] if row else []
    except (UnicodeDecodeError, csv.Error) as error:
        raise _malformed_error(str(error), origin) from None
    return tuple(rows)


def render_record(rows: Iterable[RecordRow]) -> bytes:
    text = io.StringIO(newline="")
    # csv's own default is CRLF.
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows((row.path, row.digest, row.size) for row in rows)
    return text.getvalue().encode("utf-8")


def missing_and_stale(archive: WheelArchive, rows: Iterable[RecordRow]) -> Iterator[Problem]:
    """Problems where RECORD and the archive do not name the same files."""
    recorded = {row.path for row in rows}
    # Of an installed package, the members are what RECORD has.
    unsigned = archive.members.keys() - signature_names(archive) if archive.site is None else set()
    if missing := sorted(unsigned - recorded):
        yield _mismatch_problem("record-mismatch", archive, missing)
    if stale := sorted(recorded - archive.members.keys()):
        yield _mismatch_problem("record-mismatch/missing", archive, stale)


def find_altered(archive: WheelArchive) -> Iterator[Problem]:
    """Problems where members are not what RECORD says, or not in it."""
    rows = read_record(archive)
    if archive.site is not None:
        # What Python compiled after installing has no hash.
        rows = tuple(row for row in rows if row.digest)
    yield from missing_and_stale(archive, rows)
    exempt = {f"{archive.dist_info}/RECORD", *signature_names(archive)}
    present = [row for row in rows if row.path in archive.members and row.path not in exempt]
    if unproved := [row.path for row in present if row.algorithm not in _ALGORITHMS]:
        yield _mismatch_problem("record-mismatch/no-hash", archive, unproved)
    hashed = (row for row in present if row.algorithm in _ALGORITHMS)
    if changed := [row.path for row in hashed if not row.describes(archive.chunks(row.path))]:
        yield _mismatch_problem("record-mismatch/content", archive, changed)


def signature_names(archive: WheelArchive) -> set[str]:
    return {f"{archive.dist_info}/{name}" for name in SIGNATURES}


def _encode_digest(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def _mismatch_problem(key: str, archive: WheelArchive, names: Sequence[str]) -> Problem:
    return Problem.of(key, origin=archive.path, names=join_items(names))


def _malformed_error(detail: str, origin: str) -> TorchwheelError:
    return refusal("malformed-record", origin=origin, detail=detail)


@contextmanager
def open_package(path: Path) -> Iterator[WheelArchive]:
    if is_dir(path):
        yield _open_installed(path.resolve())
        return
    with open_wheel(path) as archive:
        yield archive


def _open_installed(folder: Path) -> WheelArchive:
    site = folder.parent
    for record in find_below(site, "*.dist-info/RECORD"):
        rows = parse_record(record.read_bytes(), str(record))
        if any(row.path == f"{folder.name}/__init__.py" for row in rows):
            members = {}
            for name in (row.path for row in rows if is_file(site / row.path)):
                members[name] = zipfile.ZipInfo(name)
                members[name].file_size = (site / name).stat().st_size
            info = record.parent.name
            if {f"{info}/{file}" for file in ("METADATA", "WHEEL", "RECORD")} <= members.keys():
                return WheelArchive(folder, members, info, site)
    raise refusal("no-distribution-found", folder=folder)
