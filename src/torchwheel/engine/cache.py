"""The content of torchwheel's cache folder: size, last use and removal of each entry, and the store of wheels."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from torchwheel.host.this import USED_FOR, temporary_folders
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.system.files import atomic_write, file_sha256, read_beginning, remove_tree, replace_path
from torchwheel.system.locks import free_lock, lock_beside
from torchwheel.system.paths import exists, is_dir, is_file

_WHEELS = "wheels"

_KINDS = {
    "builds": "build",
    "extensions": "extension",
    "environments": "environment",
    "toolkits": "toolkit",
    _WHEELS: "wheel",
}
_TEMPORARY = "temporary"
"""The kind of a killed build's temporary files that lie elsewhere, because of a blank in the cache's path."""
_BUILDS = ("build", "extension", _TEMPORARY)
"""Kinds of entries that belong to one build; whether one of the builds that share the others runs is unknown."""

_DELETED = ".deleted-"

_BLOCK = 512
"""Bytes of a unit of ``st_blocks``. Source: stat(2)."""

_DIGEST = "sha256.txt"
"""Written last, so an entry without it is incomplete."""
_BUILT_IN = "built-in.txt"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kept:
    """One folder in the cache.

    Attributes:
        used: the last use in UTC, from the times of files.
        source: the tree or project that is built there, or the last one that used a shared entry; None if unknown.
        in_use: whether a build uses it now, or may do so; None if no lock is available to tell.
    """

    kind: str
    path: Path
    size: int
    used: datetime
    source: Path | None
    in_use: bool | None

    @property
    def orphaned(self) -> bool:
        """Whether its source no longer exists, such as a frontend's folder of an unpacked sdist."""
        return self.kind in _BUILDS and not self.has_source

    @property
    def has_source(self) -> bool:
        """Whether its source is known to exist."""
        return self.source is None or exists(self.source)


def record_use(folder: Path, source: Path) -> None:
    atomic_write(folder / USED_FOR, str(source))


def note_user(folder: Path, source: Path) -> None:
    """Record the last user of a shared entry; failures are ignored."""
    with suppress(OSError):
        record_use(folder, source)


def list_entries(cache: Path) -> tuple[Kept, ...]:
    seen: set[tuple[int, int]] = set()
    found = []
    # A build in the user's own tree holds a separate lock, and its folder here has only the log.
    in_place = _is_held(cache.glob("tree-*.lock"))
    building = in_place
    for folder, kind in _places(cache):
        entries = []
        for path in _list_folders(folder, kind, cache):
            held = _is_held(_existing_locks(kind, path))
            if kind not in _BUILDS:
                held = _is_either(held, building)
            else:
                building = _is_either(building, held)
                if kind == "build" and not exists(path / "lock"):
                    held = _is_either(held, in_place)
            entries.append(
                Kept(kind, path, _disk_size(path, seen), _last_use(path), _read_source(path), held)
            )
        found += sorted(entries, key=lambda entry: (entry.used, entry.path), reverse=True)
    return tuple(found)


def remove_entries(entries: Iterable[Kept]) -> Iterator[Kept]:
    """Remove entries that are not in use, and yield each removed one."""
    for entry in entries:
        with ExitStack() as stack:
            # Held, so that nothing starts to use it.
            locks = _existing_locks(entry.kind, entry.path)
            if not all(stack.enter_context(free_lock(lock)) for lock in locks) or entry.in_use:
                continue
            if os.name == "nt":
                # Windows cannot rename a folder with an open file.
                stack.close()
            # Rename it first, because an interrupted removal must not leave half a folder that looks complete.
            doomed = Path(tempfile.mkdtemp(prefix=_DELETED, dir=entry.path.parent))
            replace_path(entry.path, doomed / entry.path.name)
        remove_tree(doomed)
        yield entry


def remove_orphans(cache: Path) -> None:
    """Remove the builds of trees and projects deleted at least a day ago, and leftovers of earlier removals.

    A frontend unpacks an sdist in a new temporary folder each time, so no later build can use the old one's objects.
    """
    # A build whose source folder was deleted, such as an unpacked sdist, is kept a while because of its log.
    latest = datetime.now(timezone.utc) - timedelta(days=1)
    for folder, kind in _places(cache):
        for leftover in folder.glob(f"{_DELETED}*"):
            with suppress(OSError):
                remove_tree(leftover)
        if kind not in _BUILDS:
            continue
        for path in _list_folders(folder, kind, cache):
            entry = Kept(kind, path, 0, _last_use(path), _read_source(path), in_use=False)
            if entry.orphaned and entry.used < latest:
                # Leftovers of others must not fail a build.
                with suppress(OSError, TorchwheelError):
                    tuple(remove_entries([entry]))


def _places(cache: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders that hold entries, each with the kind of them."""
    yield from ((cache / folder, kind) for folder, kind in _KINDS.items())
    if elsewhere := temporary_folders():
        yield elsewhere, _TEMPORARY


def _list_folders(parent: Path, kind: str, cache: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(
            path
            for path in parent.iterdir()
            if is_dir(path) and not path.is_symlink() and not path.name.startswith(_DELETED)
            # Builds of all caches have theirs in one place.
            if kind != _TEMPORARY or cache in (_read_source(path) or path).parents
        )
    return []


def _existing_locks(kind: str, path: Path) -> list[Path]:
    build = _read_source(path) or path if kind == _TEMPORARY else path
    locks = [build / name for name in ("lock", "backend.lock")] if kind in _BUILDS else [lock_beside(path)]
    return [lock for lock in locks if exists(lock)]


def _is_held(locks: Iterable[Path]) -> bool | None:
    """Whether one of the locks is held; None if unknown."""
    held: bool | None = False
    for lock in locks:
        try:
            with free_lock(lock) as free:
                held = _is_either(held, not free)
        except (TorchwheelError, OSError):
            held = _is_either(held, None)
    return held


def _is_either(one: bool | None, other: bool | None) -> bool | None:
    """Combine two answers with or; None if unknown."""
    if one or other:
        return True
    return None if one is None or other is None else False


def _last_use(path: Path) -> datetime:
    times = [0.0]
    with suppress(OSError):
        times += [entry.lstat().st_mtime for entry in path.iterdir()]
    # Using an environment touches its lock.
    for named in (path, lock_beside(path)):
        with suppress(OSError):
            times.append(named.lstat().st_mtime)
    return datetime.fromtimestamp(max(times), timezone.utc)


def _read_source(path: Path) -> Path | None:
    text = read_beginning(path / USED_FOR, undecodable="surrogateescape")
    return Path(text) if text else None


def _disk_size(folder: Path, seen: set[tuple[int, int]]) -> int:
    """Sum the disk usage of the files below a folder, except those in ``seen``, to which they are added."""
    total = 0
    for parent, folders, names in os.walk(folder):
        for name in (*names, *folders):
            try:
                status = (Path(parent) / name).lstat()
            except OSError:
                continue
            identity = (status.st_dev, status.st_ino)
            if status.st_nlink == 1 or identity not in seen:
                seen.add(identity)
                # Windows has no st_blocks.
                total += getattr(status, "st_blocks", -(-status.st_size // _BLOCK)) * _BLOCK
    return total


def find_stored(cache: Path, key: str | None, name: str) -> Path | None:
    """The wheel that is stored under a key; None if there is none, or if it is damaged."""
    if key is None:
        _log.info("wheel store: no lookup, because the last build here did not end well, or there was none")
        return None
    entry = cache / _WHEELS / key
    try:
        expected = (entry / _DIGEST).read_text(encoding="ascii")
        if file_sha256(entry / name).hex() == expected:
            _log.info("wheel store: cache hit, %s", entry)
            return entry / name
        _log.info("wheel store: %s is damaged", entry)
    except (OSError, ValueError):
        _log.info("wheel store: cache miss, %s", entry)
    return None


def store_wheel(cache: Path, key: str, wheel: Path, build: Path, tree: Path) -> Path:
    """Move a finished wheel, on the cache's file system, into the store.

    It replaces the one with its name from the same build folder.
    """
    entry = cache / _WHEELS / key
    entry.mkdir(parents=True, exist_ok=True)
    content = file_sha256(wheel).hex()
    # Without it the entry is ignored.
    (entry / _DIGEST).unlink(missing_ok=True)
    replace_path(wheel, entry / wheel.name)
    atomic_write(entry / _BUILT_IN, str(build))
    record_use(entry, tree)
    atomic_write(entry / _DIGEST, content)
    for other in stored_wheels(cache, wheel.name):
        with suppress(OSError):
            built_in = read_beginning(other.with_name(_BUILT_IN), undecodable="surrogateescape")
            if other.parent != entry and built_in == str(build):
                remove_tree(other.parent)
    return entry / wheel.name


def stored_wheels(cache: Path, name: str) -> Iterator[Path]:
    """The stored wheels with a file name, in no order; they may have other sources or options."""
    for complete in (cache / _WHEELS).glob(f"*/{_DIGEST}"):
        if is_file(wheel := complete.with_name(name)):
            yield wheel
