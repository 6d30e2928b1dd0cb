"""What the build folder of an extension remembers does not get into another wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.projects import CMAKE, Built


@pytest.mark.compiles
@pytest.mark.parametrize("way", ["tables", "CMake"])
def test_what_cmake_was_told_once_holds_for_that_build(tmp_path: Path, way: str) -> None:
    built = Built(tmp_path, way)
    define = {"cmake.define.CMAKE_CXX_FLAGS": "-DGIVEN=define"}
    assert built.mark(CXXFLAGS="-DGIVEN=flags") == "first, flags"
    assert built.mark() == "first, nothing"
    assert built.mark(define) == "first, define"
    assert built.mark() == "first, nothing"
    assert built.mark(CMAKE_ARGS="-DCMAKE_CXX_FLAGS=-DGIVEN=args") == "first, args"
    assert built.mark() == "first, nothing"
    # Nothing is new: CMake does not look for the compiler again.
    status, text = built.said({"wheel.build-tag": "1"}, TERM="dumb", PIP_NO_INPUT="1")
    assert (status, "CXX compiler identification" in text, "ninja: no work to do" in text) == (
        0,
        False,
        True,
    ), text


@pytest.mark.compiles
def test_a_default_that_was_changed_is_taken(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    option = (
        'option(WITH_X "" {})\nif(WITH_X)\n  target_compile_definitions(tiny._C PRIVATE GIVEN=x)\nendif()\n'
    )
    for default, mark in (("ON", "first, x"), ("OFF", "first, nothing")):
        built.write("CMakeLists.txt", CMAKE + option.format(default))
        assert built.mark() == mark


@pytest.mark.compiles
def test_a_probe_that_a_full_disk_stopped_is_made_again(tmp_path: Path) -> None:
    built = Built(tmp_path, "CMake")
    probe = """\
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("
#include <own.h>
int main() {}" HAVE_OWN)
if(HAVE_OWN)
  target_compile_definitions(tiny._C PRIVATE GIVEN=own)
endif()
"""
    built.write("CMakeLists.txt", CMAKE + probe)
    folder = built.project / "include"
    # GCC names the folders that CPATH has, and the file in them that stops it.
    built.write(
        "include/own.h",
        "#define OWN first\n#ifdef __cplusplus\n#ifndef PY_VERSION\n#error No space left on device\n#endif\n#endif\n",
    )
    status, text = built.said(CPATH=str(folder))
    assert (status, "[configuring-disturbed]" in text) == (1, True), text
    built.write("include/own.h", "#define OWN first\n")
    assert built.mark(CPATH=str(folder)) == "first, own"
