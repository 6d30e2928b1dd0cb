"""A build under a limit of memory: with numbers of jobs by hand, and as torchwheel does it, first and with a record.

python benchmarks/memory.py [PAIRS]     needs root (a control group with a limit) and about three minutes a pair
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MINITORCH = Path(__file__).parents[1] / "examples" / "minitorch"
LIMIT_MIB = 2560
# About 1.2 GiB each with g++ 12: two of them at once are too many, one leaves room for the small ones beside it.
HUNGRY = (
    (Path(__file__).parents[1] / "tests" / "support" / "backend" / "hungry.cpp")
    .read_text()
    .replace("PARTS", "420000")
)
SOURCES = (
    "c10/core/Allocator.cpp",
    "c10/core/Device.cpp",
    "aten/src/ATen/Tensor.cpp",
    "torch/csrc/Module.cpp",
)


@contextmanager
def limited() -> Iterator[Path]:
    """A control group with the limit."""
    group = Path("/sys/fs/cgroup/torchwheel-benchmark")
    group.mkdir()
    try:
        (group / "memory.max").write_text(str(LIMIT_MIB << 20))
        yield group
    finally:
        group.rmdir()


def make_tree(folder: Path) -> Path:
    """minitorch with some hungry sources."""
    script = MINITORCH / "tools" / "make_generation.py"
    subprocess.run(
        [sys.executable, script, "scikit-build-core", folder], check=True, stdout=subprocess.DEVNULL
    )
    for source in SOURCES:
        with (folder / source).open("a", encoding="utf-8") as stream:
            stream.write(HUNGRY.replace("NAME", Path(source).stem))
    return folder


def build(group: Path, tree: Path, cache: Path, *settings: str) -> float | None:
    """Seconds of a build within the limit; None if it failed."""
    options = [
        word
        for setting in ("target=cpu", "package-version=2.14.1", "build-env=current", *settings)
        for word in ("-C", setting)
    ]
    command = [sys.executable, "-m", "torchwheel.cli.main", "build", tree, "-o", tree / "dist", *options]
    inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', group]
    environment = {**os.environ, "TORCHWHEEL_CACHE_DIR": str(cache), "CCACHE_DISABLE": "1"}
    environment.pop("MAX_JOBS", None)
    began = time.monotonic()
    done = subprocess.run([*map(str, inside), *map(str, command)], env=environment, capture_output=True)
    return time.monotonic() - began if done.returncode == 0 else None


def main(pairs: int) -> None:
    """Build in each way, in turn, and print the medians."""
    cores = len(os.sched_getaffinity(0))
    by_hand = [(f"jobs={count}", (f"jobs={count}",)) for count in range(1, cores + 2)]
    taken: dict[str, list[float | None]] = {}
    with tempfile.TemporaryDirectory() as name, limited() as group:
        for number in range(pairs):
            folder = Path(name, str(number))
            for way, settings in by_hand:
                tree = make_tree(folder / way)
                taken.setdefault(way, []).append(build(group, tree, folder / f"cache {way}", *settings))
            for way in ("by itself", "by itself, with a record"):
                tree = make_tree(folder / way)
                taken.setdefault(way, []).append(build(group, tree, folder / "cache"))
            for way, seconds in taken.items():
                print(f"{way}: {seconds[-1] if seconds[-1] is None else round(seconds[-1], 1)}", flush=True)
    for way, all_seconds in taken.items():
        good = [seconds for seconds in all_seconds if seconds is not None]
        failed = len(all_seconds) - len(good)
        print(
            f"| {way} | {statistics.median(good):.1f} s |"
            if not failed
            else f"| {way} | killed {failed} of {pairs} |"
        )


main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
