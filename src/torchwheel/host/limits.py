"""Memory and cores that a build may use: the machine's, or a container's limits.

The kernel's limits are in the control groups of version 2. Every group above a process's limits it too, so all
their folders are read. In a container ``/proc/self/cgroup`` may name a group as seen from outside, while only the
container's part is mounted; so missing folders are skipped, and the root of the mount is always read.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from torchwheel.system.paths import is_dir

_OOM_KILL = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def usable_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory this process may use; None if unknown.

    On Linux the minimum of the machine's memory and the limits of all control groups above this process. Swap does
    not count because a compiler that swaps is slower than one job fewer.
    """
    if sys.platform == "win32":
        return _windows_physical()
    if sys.platform == "linux":
        return linux_memory(root)
    return _sysconf_physical()


def linux_memory(root: Path) -> int | None:
    """``usable_memory`` of a Linux whose ``/proc`` and ``/sys`` lie under ``root``."""
    amounts = [limit for limit, _, _ in memory_groups(root)]
    physical = _meminfo_total(root)
    if physical is not None:
        amounts.append(physical)
    return min(amounts, default=None)


def usable_cores(root: Path = Path("/")) -> int | None:
    """Cores this process may use, at least 1; None if unknown."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return limited_cores(affinity, root)


def limited_cores(cores: int | None, root: Path) -> int | None:
    """``cores``, or fewer if a control group limits processor time.

    A share of 2.5 processors counts as 2, because a third job would be throttled half of the time.
    """
    amounts = [max(1, int(share)) for share in _processor_shares(root)]
    if cores is not None:
        amounts.append(cores)
    return min(amounts, default=None)


def memory_kills(root: Path = Path("/")) -> int | None:
    """How many processes the kernel has killed for lack of memory, in the innermost control group that counts them,
    else on the machine; None if unknown. Only the difference of two calls is meaningful.

    Source: cgroup-v2.html, memory.events; mm/vmstat.c, OOM_KILL.
    """
    places = [folder / "memory.events" for folder in unified_folders(root)]
    found = (_OOM_KILL.search(_read_text(place) or "") for place in (*places, root / "proc/vmstat"))
    return next((int(match[1]) for match in found if match), None)


def _meminfo_total(root: Path) -> int | None:
    for line in (_read_text(root / "proc/meminfo") or "").splitlines():
        name, _, amount = line.partition(":")
        if name == "MemTotal":
            # proc_meminfo(5): the unit "kB" means 1024 bytes.
            return int(amount.removesuffix("kB")) * 1024
    return None


def memory_groups(root: Path = Path("/")) -> Iterator[tuple[int, Path, Path]]:
    """Yield the control groups that limit this process's memory: the limit in bytes, and the files with the usage and
    its breakdown.
    """
    for folder in unified_folders(root):
        text = _read_text(folder / "memory.max")
        if text and text.isdigit():
            yield int(text), folder / "memory.current", folder / "memory.stat"


def _processor_shares(root: Path) -> Iterator[float]:
    """Yield the limits in processors; "no limit" is ``max``."""
    texts = [(_read_text(folder / "cpu.max") or "").split() for folder in unified_folders(root)]
    for quota, period in (text for text in texts if len(text) == 2):
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)


def unified_folders(root: Path) -> tuple[Path, ...]:
    """Folders of the control groups that limit this process, innermost first."""
    mount = root / "sys/fs/cgroup"
    # Lines of version 1 name controllers in their second field.
    lines = (line.split(":", 2) for line in (_read_text(root / "proc/self/cgroup") or "").splitlines())
    groups = [PurePosixPath(fields[2]) for fields in lines if len(fields) == 3 and not fields[1]]
    return tuple(
        folder
        for group in groups
        for place in (mount, mount / "unified")
        for folder in _existing_ancestors(place, group)
    )


def _existing_ancestors(mount: Path, group: PurePosixPath) -> Iterator[Path]:
    # Never leave the mount: ".." occurs for a group outside the process's namespace.
    parts = [part for part in group.parts if part not in ("/", "..")]
    for count in range(len(parts), -1, -1):
        folder = mount.joinpath(*parts[:count])
        if is_dir(folder):
            yield folder


def _read_text(path: Path) -> str | None:
    """The stripped text of a small kernel file; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _sysconf_physical() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _windows_physical() -> int | None:
    """GlobalMemoryStatusEx:
    https://learn.microsoft.com/windows/win32/api/sysinfoapi/ns-sysinfoapi-memorystatusex
    """

    class MemoryStatus(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load_percent", ctypes.c_uint32),
            ("total_physical", ctypes.c_uint64),
            ("available_physical", ctypes.c_uint64),
            ("total_page_file", ctypes.c_uint64),
            ("available_page_file", ctypes.c_uint64),
            ("total_virtual", ctypes.c_uint64),
            ("available_virtual", ctypes.c_uint64),
            ("available_extended_virtual", ctypes.c_uint64),
        )

    # Windows requires the length before the call.
    status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009  ctypes has it on Windows alone
    if not kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.total_physical)
