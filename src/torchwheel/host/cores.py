"""How many cores a build may really use: affinity, and the share that a container is given."""

from __future__ import annotations

import os
from pathlib import Path

from torchwheel.host.cgroups import legacy_folders, read_text, unified_folders


def usable_cores(root: Path = Path("/")) -> int | None:
    """Cores this process may use, at least 1; None when the system does not tell."""
    return limited_cores(_affinity(), root)


def limited_cores(cores: int | None, root: Path) -> int | None:
    """``cores``, or fewer where a control group allows less processor time.

    A share of 2.5 processors counts as 2: a third job would be throttled half of the time.
    """
    shares = [*_unified_shares(root), *_legacy_shares(root)]
    amounts = [max(1, int(share)) for share in shares]
    if cores is not None:
        amounts.append(cores)
    return min(amounts, default=None)


def _affinity() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _unified_shares(root: Path) -> list[float]:
    texts = (read_text(folder / "cpu.max") for folder in unified_folders(root))
    return [share for text in texts if text and (share := _share(*text.split()))]


def _legacy_shares(root: Path) -> list[float]:
    shares = []
    for folder in legacy_folders(root, "cpu"):
        quota = read_text(folder / "cpu.cfs_quota_us")
        period = read_text(folder / "cpu.cfs_period_us")
        if quota and period and (share := _share(quota, period)):
            shares.append(share)
    return shares


def _share(quota: str = "", period: str = "", *_: str) -> float | None:
    """Processors per period; None without a limit, which is ``max`` in version 2 and -1 in version 1."""
    if quota.isdigit() and period.isdigit() and int(period):
        return int(quota) / int(period)
    return None
