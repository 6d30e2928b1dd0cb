"""A wheel as an untrusted zip archive, or an installed package, and RECORD, the list of its files, hashes and sizes.

A wheel is opened only if every member is a plain file with a safe name.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import re
import shutil
import stat
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, NamedTuple

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from torchwheel.reporting.errors import (
    Finding,
    Problem,
    TorchwheelError,
    error,
    note,
    reading,
    refusal,
    stop_on,
    warning,
)
from torchwheel.reporting.terminal import join_items
from torchwheel.system.files import open_file
from torchwheel.system.paths import find_below, is_dir, is_file
from torchwheel.wheel.bounded_file import EXPANDED_BYTES, EXPANSION, MEMBERS, RECORD_BYTES

# What zipfile raises on damaged archives, besides its own error.
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, OverflowError, RuntimeError, ValueError,
)  # fmt: skip

# Bits that say how the bytes of a member are stored (deflate level, data descriptor) or named (UTF-8). The
# others mean encryption, patches, or masked headers.
_KNOWN_FLAGS = 0x0002 | 0x0004 | 0x0008 | 0x0800

# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_WINDOWS_REFUSES = re.compile(
    r"^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)|[. ]$|[<>:\"|?*\x00-\x1f]", re.IGNORECASE
)
# The label of a wheel variant, the last part of its file name: https://peps.python.org/pep-0825/
_VARIANT_LABEL = re.compile(r"-[0-9a-z_.]+\.whl\Z")
# RECORD's specification asks for sha256 or better; of better ones it guarantees none but these.
_ALGORITHMS = ("sha256", "sha384", "sha512")
_ODD_NAMES = "files with a name that Windows cannot write"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class WheelArchive:
    """An open wheel, or an installed package, which is read like one; ``source`` is the folder that it lies in."""

    path: Path
    members: dict[str, zipfile.ZipInfo]
    dist_info: str
    source: zipfile.ZipFile | Path

    @property
    def site(self) -> Path | None:
        return self.source if isinstance(self.source, Path) else None

    def read(self, name: str, limit: int) -> bytes:
        size = self.members[name].file_size
        if size > limit:
            said = f"{name} has {size:,} bytes; no honest one has more than {limit:,}"
            raise oversized_error(said, self.path)
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        with _reading_errors(self.path, name), self._open(name) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk

    def start(self, name: str, size: int) -> bytes:
        return next(iter(self.chunks(name)), b"")[:size]

    def _open(self, name: str) -> IO[bytes]:
        if isinstance(self.source, Path):
            return (self.source / name).open("rb")
        return self.source.open(self.members[name])

    @contextlib.contextmanager
    def unpacked(self, name: str) -> Iterator[BinaryIO]:
        """A member as a seekable stream, for as long as the block lasts; a temporary file takes no memory."""
        # The section table of a shared library stands at its end, so one pass over the compressed stream cannot use it.
        if isinstance(self.source, Path):
            with _reading_errors(self.path, name), (self.source / name).open("rb") as file:
                yield file
            return
        size = self.members[name].file_size
        free = shutil.disk_usage(tempfile.gettempdir()).free
        # A member gives at most the size that it announces, so this also stops what would unpack without end.
        if size > free:
            raise self._no_space(name, f"has {free:,} left")
        try:
            with tempfile.TemporaryFile() as stream:
                for chunk in self.chunks(name):
                    stream.write(chunk)
                # Some readers map the file, which has nothing of a buffer.
                stream.flush()
                yield stream
        except OSError as error:
            raise self._no_space(name, f"says: {error.strerror}") from None

    def _no_space(self, name: str, detail: str) -> TorchwheelError:
        values = {"member": name, "size": self.members[name].file_size, "folder": tempfile.gettempdir()}
        return refusal("no-space", origin=self.path, detail=detail, **values)


def oversized_error(what: str, origin: object) -> TorchwheelError:
    return refusal("oversized-member", origin=origin, what=what)


def parse_file_name(path: Path) -> tuple[str, str, tuple[str, ...]]:
    """Normalised name, normalised version and sorted tags that a wheel's file name states."""
    try:
        name, version, _build, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise refusal("bad-wheel-file-name", origin=path, name=path.name, reason=error) from None
    return name, str(version), tuple(sorted(str(tag) for tag in tags))


def plain_file_name(name: str) -> str:
    """Return a wheel's file name without the label of a variant, which installers without variants refuse."""
    # A platform tag fits the pattern of a label, too, so a name that is valid as it is stays.
    for candidate in (name, _VARIANT_LABEL.sub(".whl", name)):
        with contextlib.suppress(InvalidWheelFilename):
            parse_wheel_filename(candidate)
            return candidate
    return name


@contextlib.contextmanager
def open_wheel(path: Path) -> Iterator[WheelArchive]:
    with contextlib.ExitStack() as stack:
        with reading(path):
            stream = stack.enter_context(open_file(path))
        with _reading_errors(path, "its table of contents"):
            archive = stack.enter_context(zipfile.ZipFile(stream))
        infos = archive.infolist()
        _check_bounds(infos, stream.seek(0, 2), path)
        problems = list(_find_forbidden(infos, path))
        dist_info = _dist_info(info.filename for info in infos)
        if not dist_info:
            problems.append(Problem.of("not-a-wheel", origin=path))
        stop_on(problems)
        members = {info.filename: info for info in infos if not info.is_dir()}
        yield WheelArchive(path, members, dist_info, archive)


def _check_bounds(infos: Sequence[zipfile.ZipInfo], size: int, path: Path) -> None:
    if len(infos) > MEMBERS:
        found = f"it has {len(infos):,} members"
        raise oversized_error(f"{found}; no honest wheel has more than {MEMBERS:,}", path)
    expanded, most = sum(info.file_size for info in infos), max(EXPANDED_BYTES, EXPANSION * size)
    if expanded > most:
        found = f"its {size:,} bytes unpack to {expanded:,}"
        raise oversized_error(f"{found}; those of an honest wheel to no more than {most:,}", path)


def _find_forbidden(infos: Sequence[zipfile.ZipInfo], path: Path) -> Iterator[Problem]:
    counts = Counter(info.filename for info in infos)
    holders = {info.filename.rpartition("/")[0] for info in infos} - {""}
    folders = {str(above) for folder in holders for above in (folder, *PurePosixPath(folder).parents)}
    found = {
        "the same name more than once": [name for name, count in counts.items() if count > 1],
        "symbolic links or other special files": [info.filename for info in infos if _is_link(info)],
        "encrypted or patched members": [info.filename for info in infos if info.flag_bits & ~_KNOWN_FLAGS],
        "members that are compressed otherwise than by deflate": [
            # The others are no wheel's, and LZMA takes the memory that a damaged header asks for.
            info.filename
            for info in infos
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        ],
        "names that are not plain relative paths": [info.filename for info in infos if not _is_safe(info)],
        "the name of a folder as a file too": sorted(folders & counts.keys()),
    }
    for fault, names in found.items():
        if names:
            yield Problem.of("forbidden-member", origin=path, fault=fault, names=join_items(names))


def find_remarks(archive: WheelArchive) -> tuple[Finding, ...]:
    """What the format allows and what is a reason to look closer; errors are what no honest build makes."""
    parts = {name: name.split("/") for name in archive.members}
    folded = {name: unicodedata.normalize("NFC", name).casefold() for name in parts}
    counts = Counter(folded.values())
    own = archive.dist_info.removesuffix(".dist-info") + ".data"
    rights = stat.S_ISUID | stat.S_ISGID
    found = {
        "files whose names differ only in case or Unicode's form, so that one overwrites the other on some systems": [
            name for name in parts if counts[folded[name]] > 1
        ],
        _ODD_NAMES: [name for name in parts if any(map(_WINDOWS_REFUSES.search, parts[name]))],
        "files that would get the rights of another user (setuid, setgid)": [
            name for name, info in archive.members.items() if info.external_attr >> 16 & rights
        ],
        "files of the .data folder of another distribution": [
            name for name, (top, *_) in parts.items() if top.endswith(".data") and top != own
        ],
    }
    graded = [
        warning(Problem.of("odd-member", fault=what, names=join_items(some)))
        if what is _ODD_NAMES
        else error(Problem.of("suspicious-member", fault=what, names=join_items(some)))
        for what, some in found.items()
        if some
    ]
    if outside := sorted(_find_outside(parts, own)):
        graded.append(note(Problem.of("odd-member/outside", names=join_items(outside))))
    return tuple(graded)


def _find_outside(names: Iterable[str], own: str) -> set[str]:
    """Programs, data, other top levels and ``.pth`` files beside the package of a wheel's own name."""
    package = own.rpartition("-")[0].casefold()
    found = set()
    for name in names:
        first, *rest = name.split("/")
        if first == own:
            installed = rest[1:] if rest[:1] in (["purelib"], ["platlib"]) else []
            if not installed:
                found.add("/".join(rest[:2]))
                continue
            first, *rest = installed
        is_module = not rest and first.endswith((".py", ".so", ".pyd"))
        module = first.partition(".")[0] if is_module else first
        if not first.endswith((".dist-info", ".data", ".libs")) and module.casefold() != package:
            found.add(first)
    return found


def _is_link(info: zipfile.ZipInfo) -> bool:
    kind = stat.S_IFMT(info.external_attr >> 16)
    # Archives that were not made on Unix have no mode, hence 0.
    return kind not in (0, stat.S_IFREG, stat.S_IFDIR)


def _is_safe(info: zipfile.ZipInfo) -> bool:
    """Whether the name is a relative path with ``/`` that stays inside, spelled the same everywhere."""
    # zipfile cuts `filename` at a zero byte, and replaces backslashes on Windows.
    name = info.orig_filename
    parts = name.removesuffix("/").split("/")
    return (
        name == info.filename
        and all(part not in ("", ".", "..") for part in parts)
        # `C:name` is a path on a drive of Windows.
        and ":" not in parts[0]
        and "\\" not in name
        and min(name) >= " "
    )


def _dist_info(names: Iterable[str]) -> str:
    """The folder that makes a wheel of an archive; empty where there is none, or several."""
    names = set(names)
    folders = {name.split("/", 1)[0] for name in names if "/" in name}
    found = [folder for folder in folders if folder.endswith(".dist-info")]
    return found[0] if len(found) == 1 and _is_complete(found[0], names) else ""


def _is_complete(dist_info: str, names: Collection[str]) -> bool:
    return all(f"{dist_info}/{file}" in names for file in ("METADATA", "WHEEL", "RECORD"))


@contextlib.contextmanager
def _reading_errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except _ZIP_ERRORS as error:
        reason = str(error) or type(error).__name__
        raise refusal("damaged-wheel", origin=path, member=what, reason=reason) from None


class RecordRow(NamedTuple):
    """One line of RECORD: https://packaging.python.org/specifications/recording-installed-packages/#the-record-file.

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
                raise csv.Error(f"{str(row)[:200]} has not three fields")
            rows += [RecordRow(*row)] if row else []
    except (UnicodeDecodeError, csv.Error) as error:
        raise refusal("malformed-record", origin=origin, detail=error) from None
    return tuple(rows)


def render_record(rows: Iterable[RecordRow]) -> bytes:
    text = io.StringIO(newline="")
    # csv's own default is CRLF.
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def missing_and_stale(archive: WheelArchive, rows: Iterable[RecordRow]) -> Iterator[Problem]:
    """Where RECORD and the archive do not name the same files."""
    recorded = {row.path for row in rows}
    # Of an installed package, the members are what RECORD has.
    unsigned = archive.members.keys() - signature_names(archive) if archive.site is None else set()
    if missing := sorted(unsigned - recorded):
        yield _mismatch_problem("record-mismatch", archive, missing)
    if stale := sorted(recorded - archive.members.keys()):
        yield _mismatch_problem("record-mismatch/missing", archive, stale)


def find_altered(archive: WheelArchive) -> Iterator[Problem]:
    """Where members are not what RECORD says, or not in it."""
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
    """A signature cannot be in the list that it signs."""
    return {f"{archive.dist_info}/{name}" for name in ("RECORD.jws", "RECORD.p7s")}


def _encode_digest(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")


def _mismatch_problem(key: str, archive: WheelArchive, names: Sequence[str]) -> Problem:
    return Problem.of(key, origin=archive.path, names=join_items(names))


def open_package(path: Path) -> contextlib.AbstractContextManager[WheelArchive]:
    return contextlib.nullcontext(_open_installed(path.resolve())) if is_dir(path) else open_wheel(path)


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
            if _is_complete(info, members):
                return WheelArchive(folder, members, info, site)
    raise refusal("no-distribution-found", folder=folder)
