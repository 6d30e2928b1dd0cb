"""A second checkout built with what a first one left in a compiler cache, by torchwheel and by pip alone.

``python benchmarks/compiler_caches.py`` in torchwheel's own environment, with ccache on PATH. minitorch, in both
generations; each build is a process of its own, in folders and with a cache of its own.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

MINITORCH = Path(__file__).resolve().parents[1] / "examples" / "minitorch"
SETTINGS = {"USE_CUDA": "0", "BUILD_TEST": "0", "USE_MPI": "0", "MAX_JOBS": "2"}
VERSION = {"PYTORCH_BUILD_VERSION": "2.14.1", "PYTORCH_BUILD_NUMBER": "1"}
TORCHWHEEL = (sys.executable, "-m", "torchwheel.cli.main", "build")
OPTIONS = (
    "--target",
    "cpu",
    "--disable",
    "tests,mpi",
    "-C",
    "package-version=2.14.1",
    "-C",
    "build-env=current",
    "-C",
    "jobs=2",
)
PIP = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q")


def cost(command: tuple[str, ...], variables: Mapping[str, str]) -> tuple[float, float]:
    """Seconds that passed, and the processors' seconds of all that a command started.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, env={**os.environ, **variables}, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processors = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, processors


def tree(generation: str, folder: Path) -> str:
    """A checkout of its own."""
    folder.parent.mkdir(parents=True)
    script = MINITORCH / "tools" / "make_generation.py"
    subprocess.run([sys.executable, script, generation, folder], check=True)
    return str(folder)


def compare(generation: str, root: Path) -> None:
    """One row of each way."""
    for way in ("pip, no cache", "pip, ccache", "torchwheel, ccache"):
        place = root / generation / way.replace(", ", "-")
        caches = {"CCACHE_DIR": str(place / "ccache"), "TORCHWHEEL_COMPILER_CACHE": "ccache"}
        caches |= {"CCACHE_DISABLE": "1"} if way == "pip, no cache" else {}
        figures = []
        for checkout in ("first", "second"):
            source = tree(generation, place / checkout / "tree")
            out = str(place / checkout / "dist")
            if way.startswith("pip"):
                figures.append(cost((*PIP, source, "-w", out), {**SETTINGS, **VERSION, **caches}))
            else:
                home = {"TORCHWHEEL_CACHE_DIR": str(place / checkout / "cache")}
                figures.append(cost((*TORCHWHEEL, source, *OPTIONS, "-o", out), {**caches, **home}))
        cells = [f"{passed:.2f} ({processors:.2f})" for passed, processors in figures]
        print(f"| {generation} | {way} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for generation in ("scikit-build-core", "setup.py"):
            compare(generation, Path(folder))


if __name__ == "__main__":
    main()
