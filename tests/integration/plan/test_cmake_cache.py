"""CMakeCache.txt, and the comparison of what was asked with what CMake took.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from torchwheel.engine.configuring import find_differences, read_cmake_cache
from unit.plan.test_cmake_cache import define

TRICKY = {
    "PLAIN": "value",
    "LIST": "8.0;9.0+PTX",
    "SPACES": " leading and trailing ",
    "QUOTES": "say \"hello\" and 'bye'",
    "UNICODE": "Grüße 你好",
    "BACKSLASH": r"C:\Program Files\NVIDIA",
    "EQUALS": "-DX=1 -DY:STRING=2",
    "EMPTY": "",
    "QUOTED": "'inside'",
    "SEPARATORS": "one\u2028two\x85three",
}


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake on PATH")
def test_a_real_cache_gives_back_what_was_set(tmp_path: Path) -> None:
    """Set in CMake's language: on its command line CMake itself drops spaces at the end."""
    lines = [f"set({name} [==[{value}]==] CACHE STRING [==[]==])\n" for name, value in TRICKY.items()]
    text = "cmake_minimum_required(VERSION 3.18)\nproject(x NONE)\n" + "".join(lines)
    (tmp_path / "CMakeLists.txt").write_text(text, encoding="utf-8")
    command = ["cmake", "-S", str(tmp_path), "-B", str(tmp_path / "build")]
    subprocess.run(command, check=True, capture_output=True)
    cache = read_cmake_cache(tmp_path / "build" / "CMakeCache.txt")
    assert {name: cache[name] for name in TRICKY} == TRICKY | {"QUOTED": "inside"}
    assert find_differences([define(name, value) for name, value in TRICKY.items()], cache) == ()
