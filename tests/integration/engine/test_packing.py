"""What setup.py packs is what was installed.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake on PATH")
def test_cmake_itself_takes_half_a_library_for_installed(tmp_path: Path) -> None:
    """Where its time is less than a second from its source's, as it is where what was just linked is installed."""
    library, installed = tmp_path / "libc10.so", tmp_path / "lib" / "libc10.so"
    library.write_bytes(b"library" * 100)
    script = tmp_path / "cmake_install.cmake"
    script.write_text(f'file(INSTALL "{library}" DESTINATION "{installed.parent}")\n', encoding="utf-8")
    installed.parent.mkdir()
    for variables, size in (({}, 7), ({"CMAKE_INSTALL_ALWAYS": "1"}, 700)):
        installed.write_bytes(b"library")
        moment = library.stat().st_mtime_ns + 400_000_000
        os.utime(installed, ns=(moment, moment))
        command = ["cmake", "-P", str(script)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **variables})
        assert installed.stat().st_size == size
