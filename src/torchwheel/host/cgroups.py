"""Where the limits that the kernel sets to this process are written down: cgroup v2 and v1.

A process is in one group of each hierarchy, and every group above it limits it too, so the folders
of all of them are read. Inside a container ``/proc/self/cgroup`` may name a group as the machine
outside sees it while only the container's own part is mounted; folders that do not exist are
therefore left out, and the mount's root always counts.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True)
class Membership:
    """One line of ``/proc/self/cgroup``; version 2 has no controllers."""

    controllers: tuple[str, ...]
    group: PurePosixPath


def memberships(root: Path) -> tuple[Membership, ...]:
    """The groups of this process; empty where the system has none (``root`` is ``/`` but for tests)."""
    text = read_text(root / "proc/self/cgroup") or ""
    found = []
    for line in text.splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            _, controllers, group = fields
            found.append(Membership(tuple(filter(None, controllers.split(","))), PurePosixPath(group)))
    return tuple(found)


def unified_folders(root: Path) -> tuple[Path, ...]:
    """Folders of the version 2 groups that limit this process, innermost first."""
    mount = root / "sys/fs/cgroup"
    mounts = (mount, mount / "unified")
    return tuple(
        folder
        for membership in memberships(root)
        if not membership.controllers
        for place in mounts
        for folder in _upwards(place, membership.group)
    )


def legacy_folders(root: Path, controller: str) -> tuple[Path, ...]:
    """Folders of the version 1 groups that limit this process for one controller, innermost first."""
    mount = root / "sys/fs/cgroup"
    return tuple(
        folder
        for membership in memberships(root)
        if controller in membership.controllers
        # Controllers mounted together have one folder of both names, and usually a link of each.
        for place in dict.fromkeys((mount / controller, mount / ",".join(membership.controllers)))
        for folder in _upwards(place, membership.group)
    )


def read_text(path: Path) -> str | None:
    """The stripped text of a small file of the kernel, None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _upwards(mount: Path, group: PurePosixPath) -> Iterator[Path]:
    # Never climbs out of the mount: ".." occurs when a process looks at a group outside its namespace.
    parts = [part for part in group.parts if part not in ("/", "..")]
    for count in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:count])
        if folder.is_dir():
            yield folder
