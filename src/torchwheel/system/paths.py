"""What is at a path.

Before Python 3.14 ``Path.is_dir()``, ``is_file()`` and ``exists()`` raise PermissionError below a folder that may not
be entered, as another user's HOME or an entry of PATH may be. These do not: nothing can be found there.
"""

from __future__ import annotations

import os
import stat
from enum import Enum
from pathlib import Path
from typing import TypeAlias

AnyPath: TypeAlias = "str | os.PathLike[str]"


class PathKind(Enum):
    """What is at a path, links followed."""

    DIRECTORY = "directory"
    FILE = "file"
    OTHER = "other"
    """A device, a socket or a pipe."""
    ABSENT = "absent"
    UNREADABLE = "unreadable"
    """A folder above it may not be entered."""


def probe(path: AnyPath) -> PathKind:
    """Return what is at a path; a name that no file system takes is absent."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except PermissionError:
        return PathKind.UNREADABLE
    except (OSError, ValueError):
        return PathKind.ABSENT
    if stat.S_ISDIR(mode):
        return PathKind.DIRECTORY
    return PathKind.FILE if stat.S_ISREG(mode) else PathKind.OTHER


def is_dir(path: AnyPath) -> bool:
    return probe(path) is PathKind.DIRECTORY


def is_file(path: AnyPath) -> bool:
    return probe(path) is PathKind.FILE


def exists(path: AnyPath) -> bool:
    return probe(path) not in (PathKind.ABSENT, PathKind.UNREADABLE)


def is_closed(path: AnyPath) -> bool:
    """Whether this user may not read what is at a path, or not enter a folder above it."""
    kind = probe(path)
    needed = os.R_OK | os.X_OK if kind is PathKind.DIRECTORY else os.R_OK
    return kind is PathKind.UNREADABLE or (kind is not PathKind.ABSENT and not os.access(path, needed))


def find_below(folder: Path, *patterns: str) -> list[Path]:
    """Return what matches patterns in a folder, sorted; nothing in one that is not there or may not be read."""
    try:
        return sorted(path for pattern in patterns for path in folder.glob(pattern))
    except OSError:
        return []
