"""The commands of build folders, read with the real ninja."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.extension.model import Language
from torchwheel.extension.profile.model import Compile, Compiles
from torchwheel.extension.profile.ninja_commands import build_folder_compiles

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the commands are a POSIX shell's")

# What CMake 4.1 writes for a module with two sources and a custom command in a subfolder; $P is the project.
NINJA = """\
rule compile
  command = $launcher /usr/bin/c++ $flags -MD -MT $out -MF $out.d -o $out -c $in
rule link
  command = : && /usr/bin/c++ -shared -o $out $in && :
rule custom
  command = $command
build CMakeFiles/_C.dir/csrc/a.cpp.o: compile $P/csrc/a.cpp
  launcher = /usr/bin/ccache
  flags = -DX="a b" -O3
build CMakeFiles/_C.dir/csrc/b.cpp.o: compile $P/csrc/b$ é.cpp
  flags = -O3
build kernels/k.o: custom $P/csrc/k.cu
  command = cd $B/kernels && toolkit/bin/nvcc -MMD -MF k.o.d -c ../source/csrc/k.cu -o k.o && cmake -E touch done
build _C.so: link CMakeFiles/_C.dir/csrc/a.cpp.o kernels/k.o
build all: phony _C.so
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "p"
    (folder / "build").mkdir(parents=True)
    (folder / "build" / "source").symlink_to(folder, target_is_directory=True)
    return folder


def read(project: Path, text: str) -> Compiles:
    folder = project / "build"
    (folder / "build.ninja").write_text(f"P = {project}\nB = {folder}\n{text}", encoding="utf-8")
    return build_folder_compiles(project, folder, dict(os.environ), jobs=3)


def test_compiles_are_found_among_all_commands(project: Path) -> None:
    a = (
        "/usr/bin/c++", "-DX=a b", "-O3", "-MD", "-MT", "CMakeFiles/_C.dir/csrc/a.cpp.o",
        "-MF", "CMakeFiles/_C.dir/csrc/a.cpp.o.d", "-o", "CMakeFiles/_C.dir/csrc/a.cpp.o",
        "-c", f"{project}/csrc/a.cpp",
    )  # fmt: skip
    b = (
        "/usr/bin/c++", "-O3", "-MD", "-MT", "CMakeFiles/_C.dir/csrc/b.cpp.o",
        "-MF", "CMakeFiles/_C.dir/csrc/b.cpp.o.d", "-o", "CMakeFiles/_C.dir/csrc/b.cpp.o",
        "-c", f"{project}/csrc/b é.cpp",
    )  # fmt: skip
    k = ("toolkit/bin/nvcc", "-MMD", "-MF", "k.o.d", "-c", "../source/csrc/k.cu", "-o", "k.o")
    assert read(project, NINJA) == Compiles(
        project=project,
        folder=project / "build",
        compiles=(
            Compile("_C", ("csrc/a.cpp",), Language.CXX, f"{project}/csrc/a.cpp", a),
            Compile("_C", ("csrc/b é.cpp",), Language.CXX, f"{project}/csrc/b é.cpp", b),
            Compile("", ("csrc/k.cu",), Language.CUDA, "../source/csrc/k.cu", k, folder="kernels"),
        ),
        jobs=3,
    )


def failure(project: Path, text: str | None) -> str:
    with pytest.raises(TorchwheelError) as caught:
        if text is None:
            build_folder_compiles(project, project / "build", dict(os.environ), jobs=1)
        else:
            read(project, text)
    return str(caught.value)


def test_a_folder_without_build_ninja(project: Path) -> None:
    assert failure(project, None) == (
        f"--build-folder: {project}/build holds no build.ninja  [no-build-folder]\n"
        "    fix: name the folder that CMake configured with -G Ninja"
    )


def test_a_folder_that_compiles_nothing(project: Path) -> None:
    assert failure(project, "rule r\n  command = echo -c\nbuild x: r\n") == (
        f"--build-folder: nothing in {project}/build/build.ninja compiles C, C++ or CUDA  [no-compiles]\n"
        "    fix: name the folder of the project's own build"
    )


def test_a_file_that_ninja_cannot_read(project: Path) -> None:
    text = failure(project, "nonsense")
    assert text.startswith(f"--build-folder: ninja cannot read {project}/build/build.ninja: ")
    assert text.endswith("  [no-build-folder]\n    fix: configure the project again")
