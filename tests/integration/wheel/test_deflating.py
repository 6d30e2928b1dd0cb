"""Deflating what a build backend stored: the same files, the same bytes for any number of threads.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from unit.wheel.test_deflating import CHUNK, CONTENT


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_bounded_by_the_chunks_in_flight(tmp_path: Path) -> None:
    """A member of 200 MB, of which no more is held than what two threads work on."""
    path = tmp_path / "torch-1-py3-none-any.whl"
    noise = random.Random(3).randbytes(CHUNK)
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("METADATA", "WHEEL"):
            archive.writestr(f"torch-1.dist-info/{name}", CONTENT[f"torch-1.dist-info/{name}"])
        with archive.open("torch/lib/large.so", "w") as member:
            for _ in range(200):
                member.write(noise)
        names = [*archive.namelist(), "torch-1.dist-info/RECORD"]
        archive.writestr(names[-1], "".join(f"{name},,\n" for name in names))
    program = """
import re, sys
from pathlib import Path
from torchwheel.wheel import rawzip, rewrite
rawzip.usable_cores = lambda: 2
rewrite.add_members(Path(sys.argv[1]), Path(sys.argv[2]), {}, environment={})
# Not ru_maxrss, in which a process has what its parent had when it was started.
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
    command = [sys.executable, "-c", program, str(path), str(tmp_path / "result.whl")]
    peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(peak) < 100 * 1024
