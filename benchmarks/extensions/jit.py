"""``torchwheel.load`` beside torch.utils.cpp_extension's: the same source, in turn, in one run, as ratios.

Each load is a process of its own that imports PyTorch first; its seconds are those of ``load`` alone, and the
processors' seconds are those of the process and all that it started. Run with an interpreter that has PyTorch, ninja
and torchwheel: ``python benchmarks/extensions/jit.py --python PYTHON``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

OURS, THEIRS = "torchwheel", "torch.utils.cpp_extension"
SOURCE = """\
#include <torch/extension.h>
torch::Tensor twice(const torch::Tensor& x) { return x + x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); }
"""
LOAD = """\
import json, sys, time, torch, {module} as module
began = time.monotonic()
loaded = module.load("jit_benchmark", [{source!r}])
print(json.dumps([time.monotonic() - began, loaded.twice(torch.ones(1)).item()]))
"""
_KILLED_AFTER = 8.0
_LONGEST = 900.0
"""Seconds after which a load counts as one that never ends."""


class Side:
    """One of the two, with a source and caches of its own."""

    def __init__(self, python: str, module: str, folder: Path) -> None:
        self.source = folder / "source.cpp"
        self.source.write_text(SOURCE, encoding="utf-8")
        program = LOAD.format(module=module, source=str(self.source))
        self._command = [python, "-W", "ignore", "-c", program]
        path = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
        caches = {
            "TORCHWHEEL_CACHE_DIR": str(folder / "cache"),
            "TORCH_EXTENSIONS_DIR": str(folder / "cache"),
        }
        self._environment = {**os.environ, **caches, "PATH": path, "TORCH_NO_COMPILER_WRAPPER": "1"}

    def start(self) -> subprocess.Popen[str]:
        """Begin to load."""
        return subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def seconds(self, count: int = 1) -> float:
        """Load in this many processes at once; the slowest one's seconds."""
        running = [self.start() for _ in range(count)]
        try:
            return max(float(json.loads(one.communicate(timeout=_LONGEST)[0])[0]) for one in running)
        except subprocess.TimeoutExpired:
            for one in running:
                one.kill()
            return float("inf")

    def after_a_kill(self) -> float:
        """Load where the process before was killed while it compiled."""
        self.source.write_text(SOURCE.replace("x + x", "x * 2"), encoding="utf-8")
        with self.start() as process:
            time.sleep(_KILLED_AFTER)
            process.send_signal(signal.SIGKILL)
        return self.seconds()


def _cost(act: Callable[[], float]) -> tuple[float, float]:
    """The seconds, and the processors' seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = act()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


CASES: dict[str, Callable[[Side], float]] = {
    "cold": Side.seconds,
    "warm": Side.seconds,
    "a changed source, two processes at once": lambda side: _changed(side).seconds(2),
    "after a kill": Side.after_a_kill,
}


def _changed(side: Side) -> Side:
    side.source.write_text(SOURCE.replace("x + x", "2 * x"), encoding="utf-8")
    return side


def main() -> None:
    """Compare, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="an interpreter with PyTorch, ninja and torchwheel")
    python = parser.parse_args().python
    print("| what | torchwheel, s | cpp_extension, s | ratio |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for name, module in (("own", OURS), ("theirs", THEIRS)):
            (Path(folder) / name).mkdir()
            sides.append(Side(python, module, Path(folder) / name))
        for what, case in CASES.items():
            (own, own_cpu), (theirs, theirs_cpu) = (_cost(partial(case, side)) for side in sides)
            print(
                f"| {what} | {own:.2f} ({own_cpu:.2f}) | {theirs:.2f} ({theirs_cpu:.2f}) "
                f"| {own / theirs:.3f} ({own_cpu / theirs_cpu:.3f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
