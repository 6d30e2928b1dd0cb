"""Compressing a wheel of PyTorch's size, against the standard writer, in pairs.

The payload is PyTorch's own: ``BENCHMARK_TORCH`` names the folder of an installed torch.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TORCH = os.environ.get("BENCHMARK_TORCH")
PAIRS = 3
LARGEST = 2
"""Libraries of the payload, the largest ones; and so many of the other files:"""
SMALL_FILES = 2000

# The standard writer's time through ours, and our size through its, at least and at most; on two cores.
FASTER, LARGER = 1.7, 1.001
PEAK_MIB = 150

_WRITER = """
import json, os, re, sys, time, zipfile
from pathlib import Path
from wheel.wheelfile import WheelFile
kind, target, *files = json.load(sys.stdin)
start = time.perf_counter()
if kind in ("deflated", "stored"):
    method = zipfile.ZIP_DEFLATED if kind == "deflated" else zipfile.ZIP_STORED
    with WheelFile(target, "w", compression=method) as wheel:
        for file in files:
            wheel.write(file, "torch" + file.rpartition("/torch")[2])
        wheel.writestr("torch-1.dist-info/METADATA", b"Name: torch\\nVersion: 1\\n")
        wheel.writestr("torch-1.dist-info/WHEEL", b"Wheel-Version: 1.0\\n")
else:
    from torchwheel.wheel.rewrite import add_members
    add_members(Path(files[0]), Path(target), {}, environment={})
seconds = time.perf_counter() - start
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps([seconds, os.path.getsize(target), peak]))
"""


def _write(kind: str, target: Path, files: list[str]) -> tuple[float, int, float]:
    """Seconds, bytes and the peak of memory in MiB, of one process."""
    target.parent.mkdir(exist_ok=True)
    told = json.dumps([kind, str(target), *files])
    done = subprocess.run(
        [sys.executable, "-c", _WRITER], input=told, capture_output=True, text=True, check=True
    )
    seconds, size, peak = json.loads(done.stdout)
    return seconds, size, peak


@pytest.mark.skipif(TORCH is None, reason="BENCHMARK_TORCH names no installed torch")
def test_compression(benchmark: Any, bars: Any, tmp_path: Path) -> None:
    """Ours reads the stored archive that setuptools leaves; the standard writer reads the files."""
    paths = [path for path in Path(str(TORCH)).rglob("*") if path.is_file()]
    paths.sort(key=lambda path: (-path.stat().st_size, str(path)))
    files = [str(path) for path in (*paths[:LARGEST], *paths[-SMALL_FILES:])]
    name = "torch-1-py3-none-any.whl"
    stored = tmp_path / "stored" / name
    packing = _write("stored", stored, files)[0]
    ratios, sizes, peaks = [], [], []

    def pair() -> None:
        theirs = _write("deflated", tmp_path / "theirs" / name, files)
        ours = _write("ours", tmp_path / "ours" / name, [str(stored)])
        ratios.append(theirs[0] / ours[0])
        sizes.append(ours[1] / theirs[1])
        peaks.append(ours[2])

    benchmark.pedantic(pair, rounds=PAIRS)
    bars.lines.append(
        f"wheel compression: {sorted(ratios)[PAIRS // 2]:.2f} times as fast (bar {FASTER}), "
        f"{sizes[0]:.3f} times the size (bar {LARGER}), peak {max(peaks):.0f} MiB (bar {PEAK_MIB}); "
        f"packing it uncompressed before took {packing:.1f} s"
    )
