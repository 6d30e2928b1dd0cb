"""Every printable character in a path: either a build works with it, or it is told before the build.

FIELD=full compiles a project for each sign, in two minutes; otherwise all harmless characters are in one name.
"""

from __future__ import annotations

import os
import shutil
import string
import sys
from pathlib import Path

import pytest

from answered import answered
from preflight.contexts import context
from put import put, put_all
from torchwheel.host import this
from torchwheel.host.this import cache_folder, odd_characters, temporary_variables
from torchwheel.plan.defines import cmake_file
from torchwheel.preflight.checks.machine import no_special_characters
from torchwheel.preflight.registry import Passed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="other characters are special there")

FULL = os.environ.get("FIELD") == "full"
PRINTABLE = "".join(sign for sign in string.printable if sign.isprintable() and sign != "/")
HARMLESS = "".join(sign for sign in PRINTABLE if not odd_characters(Path(sign)))
OTHERS = "é中ü"
ALPHABET = string.digits + string.ascii_letters
SIGNS = sorted({*PRINTABLE, *OTHERS} - set(ALPHABET))
# As PyTorch's: a command without VERBATIM, which a shell takes apart; OpenMP, whose libraries CMake reads off what the
# linker prints; a library that another one links; a pattern.
FILES = {
    "CMakeLists.txt": """
cmake_minimum_required(VERSION 3.18)
project(tiny LANGUAGES C CXX)
find_package(OpenMP REQUIRED)
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/made.cpp
  COMMAND ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/make.py ${CMAKE_CURRENT_BINARY_DIR}/made.cpp
  DEPENDS make.py)
file(GLOB first ${CMAKE_CURRENT_SOURCE_DIR}/fir*.cpp)
add_library(first SHARED ${first} made.cpp)
add_library(second SHARED second.cpp)
target_link_libraries(second PRIVATE first OpenMP::OpenMP_CXX)
add_executable(tool tool.cpp)
target_include_directories(tool PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include)
target_link_libraries(tool PRIVATE second)
install(TARGETS first second tool LIBRARY DESTINATION lib RUNTIME DESTINATION bin)
""",
    "make.py": "import sys\nopen(sys.argv[1], 'w').write('int made() { return 1; }')\n",
    "first.cpp": "int made(); int first() { return made(); }",
    "second.cpp": "#include <omp.h>\nint first(); int second() { return first() + omp_get_max_threads(); }",
    "tool.cpp": "#include <tiny.h>\nint second(); int main() { return second() > 1 ? 0 : 1; }",
    "include/tiny.h": "",
}


def build(tree: Path, folder: Path, temporary: Path) -> None:
    """Configure, build and run a small project with the CMake file that torchwheel gives a tree."""
    put_all(tree, FILES)
    text = cmake_file({}, maps_paths=True, launcher=("env", f"BUILD={folder}"))
    options = put(folder / "options.cmake", text)
    commands = (
        ["cmake", "-GNinja", f"-DPYTHON={sys.executable}", f"-DCMAKE_PROJECT_INCLUDE_BEFORE={options}", tree],
        ["cmake", "--build", "."],
        ["./tool"],
    )
    with temporary_variables(temporary, ()) as own:
        for command in commands:
            done = answered(command, cwd=folder, env={**os.environ, **own}, errors="replace")
            assert done.returncode == 0, done.stdout + done.stderr


def is_told(folder: Path) -> bool:
    """Whether a build folder is refused before the build."""
    return not isinstance(no_special_characters(context({"build-dir": str(folder)})), Passed)


def test_the_short_set_has_what_paths_commonly_hold() -> None:
    assert f"{string.digits}{string.ascii_letters}+-.@_~ " == HARMLESS
    assert not odd_characters(Path(f"/home/{OTHERS}"))


@pytest.mark.parametrize("sign", sorted(set(PRINTABLE) - set(HARMLESS)))
def test_a_cache_with_another_character_is_elsewhere(
    sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(this, "_PLAIN_PLACE", tmp_path)
    asked = tmp_path / f"a{sign}b"
    folder = cache_folder({"TORCHWHEEL_CACHE_DIR": str(asked)})
    assert (folder.parent, odd_characters(Path(folder.name))) == (tmp_path, "")
    assert folder.stat().st_mode & 0o777 == 0o700
    # Somebody else may have made it.
    folder.chmod(0o777)
    assert cache_folder({"TORCHWHEEL_CACHE_DIR": str(asked)}) == asked
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert cache_folder({"TORCHWHEEL_CACHE_DIR": str(asked)}) == asked


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake on PATH")
@pytest.mark.parametrize("sign", [*SIGNS, ALPHABET] if FULL else [HARMLESS + OTHERS])
def test_a_character_works_or_is_told(sign: str, tmp_path: Path) -> None:
    if is_told(tmp_path / f"a{sign}b"):
        assert odd_characters(Path(sign))
        return
    build(tmp_path / f"a{sign}b" / "tree", tmp_path / f"a{sign}b" / "build", tmp_path / "tmp")


@pytest.mark.parametrize("sign", sorted(set(PRINTABLE)))
def test_what_is_not_told_is_few(sign: str, tmp_path: Path) -> None:
    """An error where a build would work is one too many: what tools take in a path is no more than this."""
    assert is_told(tmp_path / f"a{sign}b") == (sign in "\"#$&'(),:;<>[\\]`{|}")
