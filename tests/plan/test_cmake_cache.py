"""CMakeCache.txt, and the comparison of what was asked with what CMake took."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from torchwheel.plan.build_plan import Define
from torchwheel.plan.cmake_cache import (
    Difference,
    find_differences,
    read_cmake_cache,
    same_value,
)
from torchwheel.settings import Layer


def define(name: str, value: str, **more: bool) -> Define:
    return Define(name, value, Layer.CONFIG, f"-C define.{name}", **more)


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


@pytest.mark.parametrize(
    ("asked", "effective", "same"),
    [
        ("ON", "ON", True),
        ("ON", "1", True),
        ("OFF", "0", True),
        ("OFF", "FALSE", True),
        ("ON", "OFF", False),
        ("OFF", "CUDA-NOTFOUND", True),
        ("1", "ON", True),
        ("12.0", "8.9", False),
        ("C:\\CUDA\\v12.9", "c:/cuda/v12.9", True),
        ("4", "8", False),
        ("/usr/local/cuda/", "/usr/local/cuda", True),
        ("/usr/local/cuda-12", "/usr/local/cuda-13", False),
        ("Release", "Debug", False),
    ],
)
def test_values_that_mean_the_same(asked: str, effective: str, same: bool) -> None:
    assert same_value(asked, effective) is same


def test_differences_name_what_is_missing_and_what_is_other() -> None:
    asked = [
        define("USE_CUDA", "ON"),
        define("USE_CUDNN", "ON"),
        define("GONE", "x"),
        define("OWN", "y", expected=False),
    ]
    cache = {"USE_CUDA": "1", "USE_CUDNN": "OFF"}
    assert find_differences(asked, cache) == (Difference(asked[1], "OFF"), Difference(asked[2], None))
