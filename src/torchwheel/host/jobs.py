"""Memory and cores that a build may use, the machine's or a container's limits, and the number of compilers for them.

The kernel's limits are in the control groups of version 2; every group above a process's own limits it too. In a
container ``/proc/self/cgroup`` may name a group as seen from outside, while only the container's part is mounted; so
missing folders are skipped, and the root of the mount is always read.
https://docs.kernel.org/admin-guide/cgroup-v2.html
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from torchwheel.reporting.terminal import count_noun, format_gib
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import is_dir
from torchwheel.system.toml import shipped_toml

# More than any machine has.
_NO_LIMIT = 1 << 60
_MEMORY = re.compile(r"^MemTotal: +(\d+) kB$", re.MULTILINE)
_OOM_KILL = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)
_GIB = 1 << 30
_DATA = Path(__file__).with_name("jobs.toml")


def usable_memory() -> int | None:
    """Bytes of memory this process may use; None if unknown.

    Swap does not count because a compiler that swaps is slower than one job fewer.
    """
    if sys.platform == "win32":
        return _windows_physical()
    if sys.platform == "linux":
        return linux_memory(Path("/"))
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def linux_memory(root: Path) -> int | None:
    """The minimum of the memory and the limits of all control groups above this process."""
    amounts = [limit for limit, _, _ in memory_groups(root)]
    # proc_meminfo(5): the unit "kB" means 1024 bytes.
    if physical := _MEMORY.search(read_beginning(root / "proc/meminfo")):
        amounts.append(int(physical[1]) * 1024)
    return min(amounts, default=None)


def usable_cores() -> int | None:
    """Cores this process may use, at least 1; None if unknown."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return limited_cores(affinity, Path("/"))


def limited_cores(cores: int | None, root: Path) -> int | None:
    """``cores``, or fewer if a control group limits processor time."""
    # 2.5 processors count as 2, because a third job would be throttled half of the time.
    amounts = [] if cores is None else [cores]
    for folder in group_folders(root):
        quota, period, *_ = (*read_beginning(folder / "cpu.max").split(), "", "")
        # "No limit" is "max".
        if quota.isdigit() and period.isdigit() and int(period):
            amounts.append(max(1, int(quota) // int(period)))
    return min(amounts, default=None)


def memory_kills(root: Path = Path("/")) -> int | None:
    """How many processes the kernel has killed for lack of memory, in the innermost control group that counts them,
    else on the machine; None if unknown. Only the difference of two calls is meaningful.
    """
    # Source: cgroup-v2.html, memory.events; mm/vmstat.c, OOM_KILL.
    places = [folder / "memory.events" for folder in group_folders(root)]
    found = (_OOM_KILL.search(read_beginning(place)) for place in (*places, root / "proc/vmstat"))
    return next((int(match[1]) for match in found if match), None)


def memory_groups(root: Path = Path("/")) -> Iterator[tuple[int, Path, Path]]:
    """Yield the limit in bytes of each control group, and the files with the usage and its breakdown."""
    for folder in group_folders(root):
        text = read_beginning(folder / "memory.max").strip()
        if text.isdigit():
            yield int(text), folder / "memory.current", folder / "memory.stat"


def group_folders(root: Path) -> tuple[Path, ...]:
    """Folders of the groups that limit this process, innermost first."""
    own = re.search("^0::(.*)$", read_beginning(root / "proc/self/cgroup"), re.MULTILINE)
    if own is None:
        return ()
    # Never leave the mount: ".." occurs for a group outside the process's namespace.
    parts = [part for part in PurePosixPath(own[1]).parts if part not in ("/", "..")]
    folders = (root.joinpath("sys/fs/cgroup", *parts[:count]) for count in range(len(parts), -1, -1))
    return tuple(filter(is_dir, folders))


def _windows_physical() -> int | None:
    """https://learn.microsoft.com/windows/win32/api/sysinfoapi/ns-sysinfoapi-memorystatusex"""

    class MemoryStatus(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load_percent", ctypes.c_uint32),
            ("total_physical", ctypes.c_uint64),
            ("others", ctypes.c_uint64 * 6),
        )

    # Windows requires the length before the call.
    status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
    kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009  ctypes has it on Windows alone
    if not kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.total_physical)


@dataclass(frozen=True)
class Jobs:
    """How many compile jobs run at once; each number is at least 1.

    Attributes:
        flash_attention: compiles of flash attention's kernels, for ``FLASH_ATTENTION_MAX_JOBS``; None without them.
        budget: bytes for all compilers together if each waits for free memory; None if only their number is limited.
    """

    cxx: int
    cuda: int | None
    flash_attention: int | None
    max_jobs: int
    reason: str
    budget: int | None = None

    @property
    def running(self) -> int:
        """How many compilers usually run: all that are started, or those that the memory lets in."""
        return min(self.max_jobs, max(self.cxx, self.cuda or 0)) if self.budget else self.max_jobs


@cache
def job_figures() -> Mapping[str, int]:
    """Bytes of memory by the names of ``jobs.toml``'s tables: of one job, and of what stays free."""
    return {name: int(row["gib"] * _GIB) for name, row in shipped_toml(_DATA).items() if "gib" in row}


def memory_kinds(architectures: int) -> tuple[tuple[str, int], ...]:
    """Usual memory in bytes of a command, by a regular expression to search in it; the first match wins."""
    data = shipped_toml(_DATA)
    several = {"attention": "attention-several"} if architectures > 1 else {}
    kinds = ("archive", "link", "attention", "cutlass", "cuda")
    return (
        *((data[kind]["files"], _usual_memory(several.get(kind, kind))) for kind in kinds),
        ("", _usual_memory("cxx")),
    )


def _usual_memory(kind: str) -> int:
    row = shipped_toml(_DATA)[kind]
    return int(row.get("usual", row["gib"]) * _GIB)


def jobs_for(
    memory_bytes: int | None,
    cores: int | None,
    *,
    cuda: bool,
    flash_attention: bool = False,
    architectures: int = 0,
    attention_pool: bool = True,
    requested: int | None = None,
    waiting: bool = False,
) -> Jobs:
    """Choose how many compile jobs run at once.

    Args:
        flash_attention: whether flash attention's kernels are compiled; ignored without ``cuda``.
        attention_pool: whether the tree has a job pool for these kernels, as PyTorch does since 2.14; else every job
            may be such a kernel.
        requested: the user's number, which becomes ``max_jobs`` whatever fits.
        waiting: whether compilers can wait for free memory; then as many as cores may run.
    """
    figures, usual = job_figures(), shipped_toml(_DATA)["attention-pool"]
    kernel = figures["attention-several" if architectures > 1 else "attention"]
    ordinary = figures["cuda" if cuda else "cxx"]
    is_known = memory_bytes is not None
    budget = memory_budget(memory_bytes, figures["reserve"]) if memory_bytes is not None else _NO_LIMIT

    def bound(fitting: int) -> int:
        most = cores if is_known else cores or 1
        return max(1, fitting if most is None else min(fitting, most))

    fitting, pool = budget // ordinary, None
    if attention := cuda and flash_attention:
        fitting = budget // kernel if is_known else usual["depth"]
        pool = bound(fitting)
        if attention_pool:
            share = int(budget * usual["part"]) // kernel if is_known else 0
            pool = bound(max(share, min(usual["depth"], budget // kernel)))
            fitting = pool + max(0, budget - pool * kernel) // ordinary
    most, of_cxx = bound(fitting), bound(budget // figures["cxx"])
    of_cuda = bound(budget // figures["cuda"]) if cuda else None
    if memory_bytes is not None:
        reason = _explain_limit(memory_bytes, budget, cores, fitting, pool, kernel if attention else ordinary)
    elif cores is None:
        reason = "neither memory nor cores are known, so one job at a time"
    else:
        also = ", and any job may be an attention kernel" if attention and not attention_pool else ""
        reason = f"{count_noun(cores, 'core')}; the memory is not known{also}"
    if requested is not None:
        though = f", though {reason}" if requested > most else ""
        text = f"{count_noun(requested, 'job')} requested{though}"
        return Jobs(of_cxx, of_cuda, None if pool is None else min(pool, requested), requested, text)
    chosen = Jobs(of_cxx, of_cuda, pool, most, reason)
    if waiting and memory_bytes is not None and cores is not None and most < cores:
        budget = memory_budget(memory_bytes, int(shipped_toml(_DATA)["reserve"]["watched"] * _GIB))
        part = format_gib(budget)
        text = f"{count_noun(cores, 'core')}; each compiler waits until its part of {part} of memory is free"
        # Each is let in with what most files take.
        of_cxx, of_cuda = (bound(budget // _usual_memory(kind)) for kind in ("cxx", "cuda"))
        return Jobs(of_cxx, of_cuda if cuda else None, pool, cores, text, budget)
    return chosen


def memory_budget(memory: int, reserve: int) -> int:
    return max(0, memory - max(reserve, int(memory * shipped_toml(_DATA)["reserve"]["part"])))


def _explain_limit(
    memory: int, budget: int, cores: int | None, fitting: int, pool: int | None, dearest: int
) -> str:
    has = f"{format_gib(memory)} of memory"
    kind = "a compile" if pool is None else "an attention kernel"
    if budget < dearest:
        return f"{has} is little: {kind} alone may take {format_gib(dearest)}"
    if cores is not None and cores <= fitting:
        return f"{count_noun(cores, 'core')}; {has} would be enough for {count_noun(fitting, 'job')}"
    each = f"{kind} takes up to {format_gib(dearest)}"
    if pool is not None and pool < fitting:
        each += f" and {pool} of them run at once"
    return f"{has} is enough for {count_noun(fitting, 'job')}: {each}"
