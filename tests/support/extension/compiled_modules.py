"""Small modules that g++ compiles without PyTorch: what they take from others stays undefined."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from wheel.wheelfile import WheelFile

TAG = "cp311-cp311-linux_x86_64"


def compiled(folder: Path, source: str, *flags: str) -> Path:
    """A shared library of this source; skips the test where g++ does not make ELF files."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        pytest.skip("g++ makes ELF files on Linux only")
    folder.mkdir(parents=True, exist_ok=True)
    file, target = folder / "module.cpp", folder / "module.so"
    file.write_text(source, encoding="utf-8")
    command = ["g++", "-shared", "-fPIC", "-O1", "-w", str(file), "-o", str(target), *flags]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


def written_wheel(
    folder: Path,
    modules: Mapping[str, bytes],
    *,
    version: str = "1.2+cu130.sm120.torch2.14",
    tag: str = TAG,
    requires: Sequence[str] = ("torch<2.15,>=2.14",),
) -> Path:
    """A wheel of the distribution ``kernels`` with these modules."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"kernels-{version}-{tag}.whl"
    lines = ["Metadata-Version: 2.1", "Name: kernels", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    files: dict[str, bytes] = {
        "kernels/__init__.py": b"",
        **modules,
        f"kernels-{version}.dist-info/METADATA": "\n".join([*lines, ""]).encode(),
        f"kernels-{version}.dist-info/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    with WheelFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    return path
