"""Whether only this user can change the content of a folder."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import grp
    import pwd

_ROOT = 0
_SEARCHABLE = stat.S_IXGRP | stat.S_IXOTH


def make_private(folder: Path) -> None:
    """Create a folder that only this user can enter; an existing one stays as it is.

    Failures are ignored: the first write into it reports them.
    """
    with suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o700)


def other_writers(folder: Path) -> str:
    """Describe who else can change a folder's content, or that of a folder directly in it.

    A group without other members is ignored, such as the user private groups of Debian and Red Hat. On Windows
    nothing is checked, because the user's profile has its own access list.

    Returns:
        ``/srv/cache belongs to bob``, or the empty string for nobody or a missing folder.
    """
    if sys.platform == "win32":
        return ""
    try:
        status = folder.stat()
    except OSError:
        return ""
    if found := _describe_writers(folder, status):
        return found
    # Nobody else can reach the folders in it.
    if not status.st_mode & _SEARCHABLE:
        return ""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir() and (found := _describe_writers(folder / entry.name, entry.stat())):
                return found
    return ""


if sys.platform != "win32":

    def _describe_writers(folder: Path, status: os.stat_result) -> str:
        if status.st_uid not in (os.geteuid(), _ROOT):
            return f"{folder} belongs to {_user_name(status.st_uid)}"
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        if status.st_mode & stat.S_IWOTH:
            return f"everybody may write to {folder} (mode {mode})"
        if status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
            return f"the group {_group_name(status.st_gid)} may write to {folder} (mode {mode})"
        return ""

    def _is_own_group(group: int) -> bool:
        """Whether a group has no members but this user and root."""
        if group == _ROOT:
            return True
        user = _user_name(os.geteuid())
        try:
            entry = grp.getgrgid(group)
        except KeyError:
            # A container's user without a name, with a group of the same number.
            return group == os.geteuid()
        return entry.gr_name == user and set(entry.gr_mem) <= {user}

    def _user_name(number: int) -> str:
        try:
            return pwd.getpwuid(number).pw_name
        except KeyError:
            return str(number)

    def _group_name(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except KeyError:
            return str(number)
