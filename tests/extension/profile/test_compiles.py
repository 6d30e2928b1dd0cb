"""The commands that are measured: of plans, and of build folders, read with the real ninja."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from extension.planning import plan
from torchwheel.errors import TorchwheelError
from torchwheel.extension.model import Extension, Language
from torchwheel.extension.profile.compiles import build_folder_compiles, plan_compiles, selected
from torchwheel.extension.profile.model import Compile, Compiles

CONFIG = {"arch": "9.0;12.0", "jobs": "3"}


def compiles(folder: Path, *, unity: bool = False) -> Compiles:
    sources = ("csrc/a.cpp", "csrc/b.cpp", "csrc/k.cu", "plain.c")
    return plan_compiles(plan(folder, Extension(name="x._C", sources=sources, unity=unity), config=CONFIG))


def test_a_plan_is_measured_in_a_folder_of_its_own(tmp_path: Path) -> None:
    asked = compiles(tmp_path)
    assert asked.folder is None
    assert (asked.project, asked.jobs) == (Path("/home/me/my project"), 3)
    assert set(asked.links) == {"source", "torch", "toolkit"}
    assert [(c.extension, c.sources, c.language, c.path, c.folder) for c in asked.compiles] == [
        ("x._C", ("csrc/a.cpp",), Language.CXX, "source/csrc/a.cpp", "."),
        ("x._C", ("csrc/b.cpp",), Language.CXX, "source/csrc/b.cpp", "."),
        ("x._C", ("csrc/k.cu",), Language.CUDA, "source/csrc/k.cu", "."),
        ("x._C", ("plain.c",), Language.C, "source/plain.c", "."),
    ]
    assert all(c.path in c.command for c in asked.compiles)


def test_a_unity_file_has_several_sources(tmp_path: Path) -> None:
    asked = plan_compiles(
        plan(tmp_path, Extension(name="x._C", sources=("a.cpp", "b.cpp"), unity=True), config={"jobs": "1"})
    )
    (one,) = asked.compiles
    assert one.sources == ("a.cpp", "b.cpp")
    assert list(asked.generated) == [one.path]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], ["csrc/a.cpp", "csrc/b.cpp", "csrc/k.cu", "plain.c"]),
        (["csrc/*.cpp"], ["csrc/a.cpp", "csrc/b.cpp"]),
        (["*.cu", "plain.c"], ["csrc/k.cu", "plain.c"]),
        (["a.cpp"], ["csrc/a.cpp"]),
    ],
)
def test_sources_are_chosen_by_patterns(tmp_path: Path, patterns: list[str], expected: list[str]) -> None:
    assert [c.name for c in selected(compiles(tmp_path), patterns).compiles] == expected


def test_patterns_that_match_nothing_are_reported(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        selected(compiles(tmp_path), ["*.cu", "csrc/kk.cu", "*.zz"])
    why = "    why: its sources are csrc/a.cpp, csrc/b.cpp, csrc/k.cu, plain.c\n"
    assert [problem.render() for problem in caught.value.problems] == [
        "--source: no source of the project matches 'csrc/kk.cu'  [no-such-source]\n"
        f"{why}    fix: did you mean 'csrc/k.cu'?",
        "--source: no source of the project matches '*.zz'  [no-such-source]\n"
        f"{why}    fix: name one of them, or a pattern such as '*.cu'",
    ]


posix = pytest.mark.skipif(sys.platform == "win32", reason="the commands are a POSIX shell's")

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


@posix
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


@posix
def test_a_folder_without_build_ninja(project: Path) -> None:
    assert failure(project, None) == (
        f"--build-folder: {project}/build holds no build.ninja  [no-build-folder]\n"
        "    fix: name the folder that CMake configured with -G Ninja"
    )


@posix
def test_a_folder_that_compiles_nothing(project: Path) -> None:
    assert failure(project, "rule r\n  command = echo -c\nbuild x: r\n") == (
        f"--build-folder: nothing in {project}/build/build.ninja compiles C, C++ or CUDA  [no-compiles]\n"
        "    fix: name the folder of the project's own build"
    )


@posix
def test_a_file_that_ninja_cannot_read(project: Path) -> None:
    text = failure(project, "nonsense")
    assert text.startswith(f"--build-folder: ninja cannot read {project}/build/build.ninja: ")
    assert text.endswith("  [no-build-folder]\n    fix: configure the project again")
