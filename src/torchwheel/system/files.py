"""Write files atomically, remove and rename them, and locate folders of data."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.locks import machine_id
from torchwheel.system.paths import is_dir, is_file
from torchwheel.system.supervisor import start_time

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CHUNK = 1 << 20
_BINARY = getattr(os, "O_BINARY", 0)
_SECONDS_BETWEEN_TRIES = 0.05
_SECONDS_OF_OTHERS = 2.0
"""Seconds to wait for a virus scanner or a reader that has a file open."""
_PACKAGE = Path(__file__).resolve().parents[1]


@contextmanager
def atomic_replace(path: Path, temporary: Path | None = None) -> Iterator[Path]:
    """Yield a path to write to, which is renamed to ``path`` when the block ends without error, else removed.

    It is ``temporary``, which must be on the same file system, else a hidden name in the same folder.
    """
    temporary = temporary or _hidden_name(path)
    try:
        yield temporary
        replace_path(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_path(made: Path, path: Path) -> None:
    """Rename a file or folder, waiting on Windows while another program has it, or the old one, open."""
    deadline = time.monotonic() + _SECONDS_OF_OTHERS
    while True:
        try:
            made.replace(path)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)


def remove_tree(folder: Path) -> None:

    def remove_writable(remove: Callable[..., Any], path: str, _error: object) -> None:
        if sys.platform != "win32" or remove is not os.unlink:
            raise
        # Git's objects are read-only, and Windows does not delete such files.
        os.chmod(path, stat.S_IWRITE)  # noqa: PTH101
        remove(path)

    if sys.version_info >= (3, 12):
        shutil.rmtree(folder, onexc=remove_writable)
    else:
        shutil.rmtree(folder, onerror=remove_writable)


def read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return state if isinstance(state, dict) else {}


def entries_below(
    folder: Path, passed_over: Callable[[str], bool] = lambda relative: False
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below a folder with its relative path, with ``/``; links are not followed.

    Not as Path objects: PyTorch's tree has 25,000 files. An entry that is ``passed_over`` is so with its content.
    """
    pending = [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(folder / prefix) as entries:
            for entry in entries:
                relative = prefix + entry.name
                if passed_over(relative):
                    continue
                yield relative, entry
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{relative}/")


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``, with a hidden name, for content to be renamed to ``path``."""
    remove_leftovers(path)
    folder = _hidden_name(path)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hidden_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{_process_name(os.getpid())}-{secrets.token_hex(2)}.part")


def _process_name(pid: int) -> str:
    """Identify a process by id, start and machine, because ids are reused."""
    return f"{machine_id()}-{pid}-{start_time(pid)}"


def remove_leftovers(path: Path) -> None:
    """Remove temporary files of killed processes, as far as that is known here."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(?P<owner>\w{{8}}-(?P<pid>\d{{1,9}})-\d+)-\w+\.part")
    for file in path.parent.glob(".*.part"):
        match = pattern.fullmatch(file.name)
        if (
            match
            and match["owner"].startswith(machine_id())
            and match["owner"] != _process_name(int(match["pid"]))
        ):
            shutil.rmtree(file, ignore_errors=True)
            with suppress(OSError):
                file.unlink(missing_ok=True)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file to read. A pipe would block, and a device such as /dev/zero has no end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file", str(path))
    return path.open("rb")


def read_beginning(path: Path, characters: int = 1 << 20, undecodable: str = "replace") -> str:
    """Read the first characters of a text file; empty if it cannot be read."""
    try:
        # Editors on Windows may put a byte order mark in front.
        with io.TextIOWrapper(open_file(path), "utf-8-sig", undecodable) as file:
            return file.read(characters)
    except OSError:
        return ""


def inode_time(status: os.stat_result) -> int:
    """The time of an inode's last change, which cannot be set, in nanoseconds since 1970; 0 on Windows, without one."""
    return 0 if sys.platform == "win32" else status.st_ctime_ns


def short_digest(lines: Iterable[str]) -> str:
    """Return 12 hexadecimal digits of a hash of lines, for names of folders."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def file_sha256(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.digest()


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write a file atomically, creating its folder; text as UTF-8, with surrogate escapes as their original bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_replace(path) as part:
        part.write_bytes(_encode(content) if isinstance(content, str) else content)


def open_log(path: Path) -> BinaryIO:
    """Open a log to append to, creating its folder; only its owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o600), "ab")
    # An older one may have other permissions, or another owner.
    with suppress(OSError):
        path.chmod(0o600)
    return stream


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def write_if_changed(path: Path, content: str | bytes) -> None:
    """Write a file unless it has this content; then it keeps its time, so that nothing is rebuilt."""
    data = _encode(content) if isinstance(content, str) else content
    # With a time in the future, ninja would rebuild its outputs in every build.
    if not is_file(path) or path.stat().st_mtime > time.time() or path.read_bytes() != data:
        atomic_write(path, data)


def atomic_copy(source: Path, path: Path) -> None:
    """Copy a file atomically, creating the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    size = source.stat().st_size
    with atomic_replace(path) as part:
        shutil.copyfile(source, part)
        # copyfile does not notice that a file gets shorter meanwhile.
        if (copied := part.stat().st_size) != size:
            raise OSError(errno.EIO, f"{copied:,} bytes were copied of {size:,}", str(source))


def hand_over(made: Path, path: Path) -> None:
    """Rename a finished file on the same file system, durably."""
    # For writing, because Windows flushes no other files.
    with made.open("rb+") as stream:
        os.fsync(stream.fileno())
    replace_path(made, path)
    _sync_folder(path.parent)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Write a user's file like :func:`atomic_replace`, durably."""
    remove_leftovers(path)
    try:
        with atomic_replace(path) as part, part.open("xb") as stream:
            yield stream
            # Before the rename, because a power failure could otherwise leave an incomplete file with this name.
            stream.flush()
            os.fsync(stream.fileno())
        _sync_folder(path.parent)
    except OSError as error:
        raise TorchwheelError(cannot_write(path, error)) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; Windows cannot open a folder for that."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def disk_is_full(error: OSError) -> bool:
    return error.errno in _DISK_FULL


def cannot_write(path: Path, error: OSError) -> Problem:
    key = "disk-full/output" if disk_is_full(error) else "cannot-write"
    reason = error.strerror or error
    return Problem.of(key, origin=path, file=path.name, reason=reason, folder=path.parent)


def _data_folder(installed: str, in_repository: str) -> Path:
    folder = _PACKAGE / installed
    return folder if is_dir(folder) else _PACKAGE.parents[1] / in_repository


def overlays_folder() -> Path:
    return _data_folder("overlays", "overlays")


def shim_folder() -> Path:
    return _data_folder("shim", "backend")
