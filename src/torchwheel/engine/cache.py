"""What torchwheel keeps in its cache folder: its size, its last use, what it is for; and removing it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from torchwheel._files import atomic_write, remove_tree, replace_path
from torchwheel._locks import free_lock, lock_beside
from torchwheel.errors import TorchwheelError

WHEELS = "wheels"
"""The wheel store's folder in the cache folder."""

_KINDS = {
    "builds": "build",
    "extensions": "extension",
    "environments": "environment",
    "toolkits": "toolkit",
    WHEELS: "wheel",
}
_BUILDS = ("build", "extension")
"""What is used by a build of its own; whether one of several builds that share the rest is running
is not known."""

_USED_FOR = "used-for.txt"
"""In a build's folder: the path of the tree or project that is built there. Its time is that of the latest use."""

_LOCKS = ("lock", "backend.lock")
_DELETED = ".deleted-"
_KEPT_WITHOUT_SOURCE = timedelta(days=1)
"""How long a build stays whose source folder was deleted, as of an unpacked sdist: its log may still be wanted."""

_BLOCK = 512
"""Bytes in a unit of ``st_blocks``. Source: stat(2)."""


@dataclass(frozen=True)
class Kept:
    """One folder in the cache.

    Attributes:
        kind: ``build``, ``extension``, ``environment``, ``toolkit`` or ``wheel``.
        size: bytes on the disk; a file with links in several folders counts in the first one.
        used: when it was last used, in UTC, as far as times of files tell.
        source: the tree or project that is built there, or that was the last to use what several share; None where
            that is not known.
        in_use: whether a build works with it now, or may do so; None where no lock can be had that would tell.
    """

    kind: str
    path: Path
    size: int
    used: datetime
    source: Path | None
    in_use: bool | None

    @property
    def orphaned(self) -> bool:
        """Whether what is built there no longer exists, as the folders are that frontends unpack sdists in."""
        return self.kind in _BUILDS and not self.has_source

    @property
    def has_source(self) -> bool:
        """Whether its source exists, as far as is known."""
        return self.source is None or self.source.exists()


def record_use(folder: Path, source: Path) -> None:
    """Note in a build's folder, whose lock is held, what is built there.

    Raises:
        OSError: it cannot be written.
    """
    atomic_write(folder / _USED_FOR, str(source))


def note_user(folder: Path, source: Path) -> None:
    """Note in what several builds share who used it last; a build does not fail for want of that."""
    with suppress(OSError):
        record_use(folder, source)


def kept(cache: Path) -> tuple[Kept, ...]:
    """Everything in the cache, kind by kind, the latest used first."""
    seen: set[tuple[int, int]] = set()
    found = []
    # A build in the user's own tree holds a lock of its own, and its folder here has only the log.
    in_place = _is_held(cache.glob("tree-*.lock"))
    building = in_place
    for folder, kind in _KINDS.items():
        entries = []
        for path in _folders(cache / folder):
            held = _is_held(_locks(kind, path))
            if kind not in _BUILDS:
                held = _either(held, building)
            else:
                building = _either(building, held)
                if kind == "build" and not (path / "lock").exists():
                    held = _either(held, in_place)
            entries.append(Kept(kind, path, _size(path, seen), _last_use(path), _source(path), held))
        found += sorted(entries, key=lambda entry: (entry.used, entry.path), reverse=True)
    return tuple(found)


def remove(entries: Iterable[Kept]) -> Iterator[Kept]:
    """Remove entries that nothing uses, and yield each that was removed.

    Raises:
        OSError: one cannot be removed.
        TorchwheelError: no lock can be had that tells whether one is in use.
    """
    for entry in entries:
        with ExitStack() as stack:
            free = stack.enter_context(_free(entry.kind, entry.path))
            if not free or entry.in_use:
                continue
            if os.name == "nt":
                # A folder with an open file cannot be renamed there.
                stack.close()
            # Under another name at once: a removal that is interrupted must not leave half a folder that looks whole.
            doomed = Path(tempfile.mkdtemp(prefix=_DELETED, dir=entry.path.parent))
            replace_path(entry.path, doomed / entry.path.name)
        remove_tree(doomed)
        yield entry


def remove_orphans(cache: Path) -> None:
    """Remove the builds of trees and projects that were deleted at least a day ago, and what earlier removals left.

    A frontend unpacks an sdist in a new temporary folder each time, and no later build could use what was built for it.
    """
    latest = datetime.now(timezone.utc) - _KEPT_WITHOUT_SOURCE
    for folder, kind in _KINDS.items():
        for leftover in (cache / folder).glob(f"{_DELETED}*"):
            with suppress(OSError):
                remove_tree(leftover)
        if kind not in _BUILDS:
            continue
        for path in _folders(cache / folder):
            entry = Kept(kind, path, 0, _last_use(path), _source(path), in_use=False)
            if entry.orphaned and entry.used < latest:
                # A build does not fail because of another's leavings.
                with suppress(OSError, TorchwheelError):
                    tuple(remove([entry]))


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted(
            path
            for path in parent.iterdir()
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(_DELETED)
        )
    except OSError:
        return []


@contextmanager
def _free(kind: str, path: Path) -> Iterator[bool]:
    """Whether nothing holds one of the entry's locks; they are held meanwhile, so that nothing starts to."""
    with ExitStack() as stack:
        yield all(stack.enter_context(free_lock(lock)) for lock in _locks(kind, path))


def _locks(kind: str, path: Path) -> list[Path]:
    """The locks of an entry that are there."""
    locks = [path / name for name in _LOCKS] if kind in _BUILDS else [lock_beside(path)]
    return [lock for lock in locks if lock.exists()]


def _is_held(locks: Iterable[Path]) -> bool | None:
    """Whether somebody holds one of the locks; None where they do not tell."""
    held: bool | None = False
    for lock in locks:
        try:
            with free_lock(lock) as free:
                held = _either(held, not free)
        except (TorchwheelError, OSError):
            held = _either(held, None)
    return held


def _either(one: bool | None, other: bool | None) -> bool | None:
    """Whether one of the two is so; None where that is not known."""
    if one or other:
        return True
    return None if one is None or other is None else False


def _last_use(path: Path) -> datetime:
    times = [0.0]
    with suppress(OSError):
        times += [entry.lstat().st_mtime for entry in path.iterdir()]
    # Whoever uses an environment touches its lock.
    for named in (path, lock_beside(path)):
        with suppress(OSError):
            times.append(named.lstat().st_mtime)
    return datetime.fromtimestamp(max(times), timezone.utc)


def _source(path: Path) -> Path | None:
    try:
        text = (path / _USED_FOR).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return Path(text) if text else None


def _size(folder: Path, seen: set[tuple[int, int]]) -> int:
    """What the files below a folder take on the disk, apart from those in ``seen``, to which they are added."""
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
                total += getattr(status, "st_blocks", -(-status.st_size // _BLOCK)) * _BLOCK
    return total
