"""A copy of the source tree to build in, brought up to date by copying only what changed.

Both generations of PyTorch write into the tree that they build, so a build happens in a copy that belongs
to it alone. The copy shares its blocks with the original where the file system can (FICLONE).
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torchwheel._files import atomic_replace, atomic_write
from torchwheel._toml import read_toml

_FICLONE = 0x40049409
"""ioctl(2) request that makes one file share another's blocks (linux/fs.h)."""


@dataclass(frozen=True)
class StageReport:
    """What bringing a stage up to date did: numbers of files."""

    copied: int
    removed: int
    unchanged: int


@dataclass(frozen=True)
class _Exclusions:
    anywhere: frozenset[str]
    at_root: frozenset[str]
    suffixes_below: dict[str, tuple[str, ...]]

    def drops(self, relative: str, name: str, parent: str) -> bool:
        return (
            name in self.anywhere
            or relative in self.at_root
            or name.endswith(self.suffixes_below.get(parent, ()) or "\0")
        )


def _exclusions() -> _Exclusions:
    table = read_toml(Path(__file__).with_name("build_outputs.toml"))
    return _Exclusions(
        anywhere=frozenset(table["anywhere"]),
        at_root=frozenset(table["paths"]),
        suffixes_below={folder: tuple(suffixes) for folder, suffixes in table["suffixes"].items()},
    )


def source_files(root: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file of a tree that is source, with its path relative to ``root`` (with ``/``).

    What earlier builds left in the tree, and version control's own files, are not source
    (``build_outputs.toml``). Links are yielded, not followed.
    """
    exclusions = _exclusions()
    pending = [(str(root), "")]
    while pending:
        folder, prefix = pending.pop()
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                relative = prefix + entry.name
                if exclusions.drops(relative, entry.name, prefix.rstrip("/")):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, relative + "/"))
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    yield relative, entry


class _Copier:
    """Copies files, sharing blocks for as long as the file system agrees."""

    def __init__(self) -> None:
        self._can_share = sys.platform == "linux"

    def copy(self, source: str, destination: Path) -> None:
        with atomic_replace(destination) as part:
            if not (self._can_share and self._share(source, part)):
                shutil.copyfile(source, part)

    def _share(self, source: str, destination: Path) -> bool:
        with open(source, "rb") as original, destination.open("wb") as copy:  # noqa: PTH123
            try:
                fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise
                self._can_share = False
                return False
        return True


def _place(
    copier: _Copier, entry: os.DirEntry[str], status: os.stat_result, target: Path, first: bool
) -> None:
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.is_symlink():
        target.unlink(missing_ok=True)
        target.symlink_to(os.readlink(entry.path))
        return
    copier.copy(entry.path, target)
    _set_mode(status, target)
    # A file that changed must look newer than what was built from it, even if an older version was restored.
    if first:
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _set_mode(status: os.stat_result, target: Path) -> None:
    if not target.is_symlink():
        target.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)


def _same_content(entry: os.DirEntry[str], target: Path) -> bool:
    if entry.is_symlink() or target.is_symlink():
        return entry.is_symlink() and target.is_symlink() and os.readlink(entry.path) == os.readlink(target)
    return target.is_file() and filecmp.cmp(entry.path, target, shallow=False)


def bring_up_to_date(source: Path, stage: Path, state_file: Path) -> StageReport:
    """Make ``stage`` hold the source files of ``source``; files that a build made there stay.

    Args:
        source: the user's tree; only read.
        stage: the copy.
        state_file: remembers the size and time of every file as it was copied.

    Raises:
        OSError: a file cannot be read or written; the next run goes on where this one stopped.
    """
    known = _read_state(state_file)
    files = list(source_files(source))
    gone = known.keys() - {relative for relative, _ in files}
    for relative in gone:
        _remove(stage / relative)
    current: dict[str, list[int]] = {}
    copier = _Copier()
    copied = 0
    try:
        for relative, entry in files:
            status = entry.stat(follow_symlinks=False)
            mark = [status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode)]
            target = stage / relative
            if known.get(relative) != mark or not os.path.lexists(target):
                if relative in known and _same_content(entry, target):
                    # Other times and permissions are no reason to compile again: unpacking an sdist changes both.
                    _set_mode(status, target)
                else:
                    _place(copier, entry, status, target, first=relative not in known)
                    copied += 1
            current[relative] = mark
    except BaseException:
        _write_state(state_file, {**known, **current})
        raise
    _write_state(state_file, current)
    return StageReport(copied=copied, removed=len(gone), unchanged=len(files) - copied)


def _remove(file: Path) -> None:
    """Remove a file whose folder may have become a file meanwhile."""
    with suppress(FileNotFoundError, NotADirectoryError):
        file.unlink()


def _read_state(path: Path) -> dict[str, list[int]]:
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _write_state(path: Path, state: dict[str, list[int]]) -> None:
    atomic_write(path, json.dumps(state, separators=(",", ":")))
