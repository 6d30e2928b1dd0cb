"""Usable memory and cores, from recorded /proc and /sys trees of real machines and containers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from put import put
from torchwheel.host.jobs import (
    group_folders,
    limited_cores,
    linux_memory,
    memory_kills,
    usable_cores,
    usable_memory,
)

GIB = 1 << 30
ALL = 34_180_071_424


def machine(root: Path, files: dict[str, str], cgroup: str = "0::/", kib: int = 33_378_976) -> Path:
    text = f"MemTotal:       {kib} kB\nMemFree:        1000 kB\n"
    for name, content in {"proc/meminfo": text, "proc/self/cgroup": f"{cgroup}\n", **files}.items():
        put(root / name, f"{content}\n" if content else "")
    return root


def test_kilobytes_of_meminfo_are_not_lost_in_a_division(tmp_path: Path) -> None:
    memory = linux_memory(machine(tmp_path, {}))
    assert memory == ALL
    assert f"{memory / GIB:.1f} GiB" == "31.8 GiB"


V2 = "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "cgroup", "memory", "cores"),
    [
        ({}, "", ALL, 24),
        ({f"{V2}/memory.max": str(4 * GIB), f"{V2}/cpu.max": "200000 100000"}, "0::/", 4 * GIB, 2),
        ({f"{V2}/memory.max": "max", f"{V2}/cpu.max": "max 100000"}, "0::/", ALL, 24),
        ({f"{V2}/cpu.max": "50000 100000"}, "0::/", ALL, 1),
        ({f"{V2}/cpu.max": "150000 100000"}, "0::/", ALL, 1),
        ({f"{V2}/cpu.max": "100000 0"}, "0::/", ALL, 24),
        ({f"{V2}/cpu.max": "nonsense"}, "0::/", ALL, 24),
        ({f"{V2}/cpu.max": ""}, "0::/", ALL, 24),
    ],
)
def test_limits_of_groups(
    files: dict[str, str], cgroup: str, memory: int, cores: int, tmp_path: Path
) -> None:
    root = machine(tmp_path, files, cgroup)
    assert (linux_memory(root), limited_cores(24, root)) == (memory, cores)


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    assert linux_memory(tmp_path) is None
    assert limited_cores(None, tmp_path) is None


def test_a_group_above_limits_too(tmp_path: Path) -> None:
    above, own = f"{V2}/user.slice", f"{V2}/user.slice/session.scope"
    files = {f"{own}/memory.max": "max", f"{own}/cpu.max": "max 100000"}
    files |= {f"{above}/memory.max": str(8 * GIB), f"{above}/cpu.max": "650000 100000"}
    root = machine(tmp_path, files, cgroup="0::/user.slice/session.scope")
    assert group_folders(root) == (root / own, root / above, root / V2)
    assert linux_memory(root) == 8 * GIB
    assert limited_cores(24, root) == 6


def test_a_path_that_climbs_out_of_the_mount(tmp_path: Path) -> None:
    root = machine(tmp_path, {"sys/fs/cgroup/memory.max": "1000"}, cgroup="0::/../../etc")
    assert group_folders(root) == (root / "sys/fs/cgroup",)
    assert linux_memory(root) == 1000


def test_garbage_in_proc_self_cgroup(tmp_path: Path) -> None:
    root = machine(tmp_path, {"sys/fs/cgroup/memory.max": "12 GiB"}, cgroup="nonsense\n0:\n4:memory:/")
    assert group_folders(root) == ()
    assert linux_memory(root) == ALL


def test_this_machine() -> None:
    cores = usable_cores()
    assert cores is not None
    assert 1 <= cores <= (os.cpu_count() or 1)
    memory = usable_memory()
    assert memory is not None
    assert memory > 64 * 1024 * 1024
    if sys.platform != "win32":
        assert memory <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_ends_for_lack_of_memory_are_those_of_the_group_else_of_the_machine(tmp_path: Path) -> None:
    machines = {"proc/vmstat": "nr_free_pages 5\noom_kill 3\nnuma_hit 7"}
    above = {**machines, f"{V2}/memory.events": "low 0\noom 9\noom_kill 2\noom_group_kill 5"}
    own = {**above, f"{V2}/builds/memory.events": "oom_kill 1"}
    assert memory_kills(machine(tmp_path / "own", own, "0::/builds")) == 1
    assert memory_kills(machine(tmp_path / "above", above, "0::/builds")) == 2
    assert memory_kills(machine(tmp_path / "machine", machines)) == 3
    assert memory_kills(tmp_path / "nothing") is None
