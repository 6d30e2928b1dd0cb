"""How much memory a build may really use: the machine's, or less where a container limits it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from torchwheel.host.cgroups import legacy_folders, read_text, unified_folders

# Version 1 says "no limit" with the greatest multiple of a page that fits 63 bits, which depends on
# the page size (4 KiB to 64 KiB). No machine has an exbibyte.
_NO_LIMIT = 1 << 60


def usable_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory this process may use, None when the system does not tell.

    On Linux the least of what the machine has and what every control group above this process allows.
    Swap does not count: a compiler that swaps is slower than one job fewer.
    """
    if sys.platform == "win32":
        return _windows_physical()
    if sys.platform == "linux":
        return linux_memory(root)
    return _sysconf_physical()


def linux_memory(root: Path) -> int | None:
    """``usable_memory`` of a Linux whose ``/proc`` and ``/sys`` lie under ``root``."""
    amounts = [*_unified_limits(root), *_legacy_limits(root)]
    physical = _meminfo_total(root)
    if physical is not None:
        amounts.append(physical)
    return min(amounts, default=None)


def _meminfo_total(root: Path) -> int | None:
    for line in (read_text(root / "proc/meminfo") or "").splitlines():
        name, _, amount = line.partition(":")
        if name == "MemTotal":
            # proc_meminfo(5): the unit "kB" means 1024 bytes.
            return int(amount.removesuffix("kB")) * 1024
    return None


def _unified_limits(root: Path) -> list[int]:
    texts = (read_text(folder / "memory.max") for folder in unified_folders(root))
    return [int(text) for text in texts if text and text.isdigit()]


def _legacy_limits(root: Path) -> list[int]:
    texts = (read_text(folder / "memory.limit_in_bytes") for folder in legacy_folders(root, "memory"))
    return [int(text) for text in texts if text and text.isdigit() and int(text) < _NO_LIMIT]


def _sysconf_physical() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _windows_physical() -> int | None:
    """GlobalMemoryStatusEx:
    https://learn.microsoft.com/windows/win32/api/sysinfoapi/ns-sysinfoapi-memorystatusex
    """
    import ctypes

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

    status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009  ctypes has it on Windows alone
    if not kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.total_physical)
