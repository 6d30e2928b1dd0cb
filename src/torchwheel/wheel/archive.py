"""A wheel as an untrusted zip archive: opened only if every member is a plain file with a safe name."""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from torchwheel.reporting.errors import (
    Finding,
    Problem,
    TorchwheelError,
    error,
    note,
    refusal,
    unreadable_error,
    warning,
)
from torchwheel.reporting.terminal import join_items
from torchwheel.system.files import open_file
from torchwheel.wheel.bounded_file import EXPANDED_BYTES, EXPANSION, MEMBERS

# What zipfile raises on damaged archives, besides its own error.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)

# Bits that say how the bytes of a member are stored (deflate level, data descriptor) or named (UTF-8). The
# others mean encryption, patches, or masked headers.
_KNOWN_FLAGS = 0x0002 | 0x0004 | 0x0008 | 0x0800

# The others are no wheel's, and LZMA takes the memory that a damaged header asks for.
_KNOWN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

# https://learn.microsoft.com/windows/win32/fileio/naming-a-file
_WINDOWS_REFUSES = re.compile(
    r"^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)|[. ]$|[<>:\"|?*\x00-\x1f]", re.IGNORECASE
)
# The label of a wheel variant, the last part of its file name: https://peps.python.org/pep-0825/
_VARIANT_LABEL = re.compile(r"-[0-9a-z_.]+\.whl\Z")
_ODD_NAMES = "files with a name that Windows cannot write"
_CHUNK = 1 << 20


@dataclass(frozen=True)
class WheelArchive:
    """An open wheel, or an installed package, which is read like one.

    Attributes:
        members: its members by name, folders left out, in the order of the archive.
        source: the archive itself, for reading, or the folder that the package is installed in.
    """

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
            raise oversized_error(
                f"{name} has {size:,} bytes; no honest one has more than {limit:,}", str(self.path)
            )
        return b"".join(self.chunks(name))

    def chunks(self, name: str) -> Iterator[bytes]:
        with _reading_errors(self.path, name), self._open(name) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk

    def _open(self, name: str) -> IO[bytes]:
        if isinstance(self.source, Path):
            return (self.source / name).open("rb")
        return self.source.open(self.members[name])

    @contextlib.contextmanager
    def unpacked(self, name: str) -> Iterator[BinaryIO]:
        """A member as a seekable stream, for as long as the block lasts.

        The section table of a shared library stands at its end, so one pass over the compressed stream cannot use it,
        and searching for the fat binaries' magic number would guess. A temporary file takes no memory.
        """
        if isinstance(self.source, Path):
            with _reading_errors(self.path, name), (self.source / name).open("rb") as file:
                yield file
            return
        size = self.members[name].file_size
        free = shutil.disk_usage(tempfile.gettempdir()).free
        # A member gives at most the size that it announces, so this also stops what would unpack without end.
        if size > free:
            raise TorchwheelError(self._no_space(name, size, f"has {free:,} left"))
        try:
            with tempfile.TemporaryFile() as stream:
                for chunk in self.chunks(name):
                    stream.write(chunk)
                # Some readers map the file, which has nothing of a buffer.
                stream.flush()
                yield stream
        except OSError as error:
            raise TorchwheelError(self._no_space(name, size, f"says: {error.strerror}")) from None

    def _no_space(self, name: str, size: int, detail: str) -> Problem:
        return Problem.of(
            "no-space", origin=self.path, member=name, size=size, folder=tempfile.gettempdir(), detail=detail
        )


def oversized_error(what: str, origin: str) -> TorchwheelError:
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
    plain = _VARIANT_LABEL.sub(".whl", name)
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        with contextlib.suppress(InvalidWheelFilename):
            parse_wheel_filename(plain)
            return plain
    return name


@contextlib.contextmanager
def open_wheel(path: Path) -> Iterator[WheelArchive]:
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(open_file(path))
        except OSError as error:
            raise unreadable_error(error, str(path)) from None
        with _reading_errors(path, "its table of contents"):
            archive = stack.enter_context(zipfile.ZipFile(stream))
        infos = archive.infolist()
        _check_bounds(infos, stream.seek(0, 2), path)
        problems = list(_find_forbidden(infos, path))
        dist_info = _dist_info(infos)
        if dist_info is None:
            problems.append(Problem.of("not-a-wheel", origin=path))
        if dist_info is None or problems:
            raise TorchwheelError(problems)
        members = {info.filename: info for info in infos if not info.is_dir()}
        yield WheelArchive(path, members, dist_info, archive)


def _check_bounds(infos: Sequence[zipfile.ZipInfo], size: int, path: Path) -> None:
    """No more members, and no more bytes in them, than a file of ``size`` bytes may have."""
    if len(infos) > MEMBERS:
        raise oversized_error(
            f"it has {len(infos):,} members; no honest wheel has more than {MEMBERS:,}", str(path)
        )
    expanded, most = sum(info.file_size for info in infos), max(EXPANDED_BYTES, EXPANSION * size)
    if expanded > most:
        raise oversized_error(
            f"its {size:,} bytes unpack to {expanded:,}; those of an honest wheel to no more than {most:,}",
            str(path),
        )


def _find_forbidden(infos: Iterable[zipfile.ZipInfo], path: Path) -> Iterator[Problem]:
    infos = tuple(infos)
    counts = Counter(info.filename for info in infos)
    holders = {info.filename.rpartition("/")[0] for info in infos} - {""}
    folders = {str(above) for folder in holders for above in (folder, *PurePosixPath(folder).parents)}
    for names, fault in (
        ([name for name, count in counts.items() if count > 1], "the same name more than once"),
        ([info.filename for info in infos if _is_link(info)], "symbolic links or other special files"),
        ([info.filename for info in infos if info.flag_bits & ~_KNOWN_FLAGS], "encrypted or patched members"),
        (
            [info.filename for info in infos if info.compress_type not in _KNOWN_METHODS],
            "members that are compressed otherwise than by deflate",
        ),
        ([info.filename for info in infos if not _is_safe(info)], "names that are not plain relative paths"),
        (sorted(folders & counts.keys()), "the name of a folder as a file too"),
    ):
        if names:
            yield Problem.of("forbidden-member", origin=path, fault=fault, names=join_items(names))


def find_remarks(archive: WheelArchive) -> tuple[Finding, ...]:
    """What the format allows and what is a reason to look closer; errors are what no honest build makes."""
    names = list(archive.members)
    folded = Counter(unicodedata.normalize("NFC", name).casefold() for name in names)
    parts = {name: name.split("/") for name in names}
    own = archive.dist_info.removesuffix(".dist-info") + ".data"
    rights = stat.S_ISUID | stat.S_ISGID
    found = (
        (
            "files whose names differ only in case or Unicode's form, so that one overwrites the other on some systems",
            [name for name in names if folded[unicodedata.normalize("NFC", name).casefold()] > 1],
        ),
        (
            _ODD_NAMES,
            [name for name in names if any(_WINDOWS_REFUSES.search(part) for part in parts[name])],
        ),
        (
            "files that would get the rights of another user (setuid, setgid)",
            [name for name in names if archive.members[name].external_attr >> 16 & rights],
        ),
        (
            "files of the .data folder of another distribution",
            [name for name in names if parts[name][0].endswith(".data") and parts[name][0] != own],
        ),
    )
    graded = [
        warning(Problem.of("odd-member", fault=what, names=join_items(some)))
        if what is _ODD_NAMES
        else error(Problem.of("suspicious-member", fault=what, names=join_items(some)))
        for what, some in found
        if some
    ]
    if outside := sorted(_find_outside(names, own)):
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
        module = (
            first if rest else first.partition(".")[0] if first.endswith((".py", ".so", ".pyd")) else first
        )
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


def _dist_info(infos: Iterable[zipfile.ZipInfo]) -> str | None:
    names = {info.filename for info in infos}
    folders = {name.split("/", 1)[0] for name in names if "/" in name}
    found = [folder for folder in folders if folder.endswith(".dist-info")]
    if len(found) == 1 and {f"{found[0]}/{file}" for file in ("METADATA", "WHEEL", "RECORD")} <= names:
        return found[0]
    return None


@contextlib.contextmanager
def _reading_errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except _ZIP_ERRORS as error:
        raise refusal(
            "damaged-wheel", origin=path, member=what, reason=error or type(error).__name__
        ) from None
