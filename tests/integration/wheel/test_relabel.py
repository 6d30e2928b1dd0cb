"""Wheels that say other things of themselves: name and metadata change, and no other byte.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from torchwheel.wheel.relabel import Relabelling, relabel_wheel
from unit.wheel.test_relabel import VERSION, wheel

__all__ = ["wheel"]


# Even looking for pip as a module takes away the shim by which setuptools finds its own distutils.
@pytest.mark.skipif(not any(distributions(name="pip")), reason="pip is not installed")
def test_pip_installs_it(wheel: Path, tmp_path: Path) -> None:
    site, out = tmp_path / "site", tmp_path / "out"
    out.mkdir()
    made = relabel_wheel(wheel, out, Relabelling(VERSION, tag="py3-none-any"), environment={})
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--quiet"]
    subprocess.run([*command, "--target", str(site), str(made)], check=True, capture_output=True, timeout=120)
    assert sorted(path.name for path in site.iterdir()) == [
        "bin",
        "my_kernels",
        f"my_kernels-{VERSION}.dist-info",
        "share",
    ]
    assert (site / "share" / "größe.txt").read_bytes() == b"12"
