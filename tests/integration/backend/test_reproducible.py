"""With SOURCE_DATE_EPOCH a wheel is the same, bit for bit, wherever, whenever and however it is built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from backend.builds import GENERATIONS, LATER, check, clean_environment, make_tree, torchwheel
from places import REPOSITORY
from put import put, put_all
from torchwheel.plan.defines import cmake_file
from torchwheel.reproducible import nvcc_naming

EPOCH = "1700000000"
ASKED = ("--target=cpu", "--disable=tests,mpi", "-Cpackage-version=2.14.1", "-Cbuild-env=current")
OTHER = {"TZ": "Asia/Tokyo", "LANG": "C.UTF-8", "PYTHONHASHSEED": "7", "MAX_JOBS": "1"}


def built(
    folder: Path, generation: str, umask: str, variables: Mapping[str, str], before: tuple[str, ...] = ()
) -> Path:
    """The wheel of a tree in a folder, with a home and caches of its own."""
    tree, home = folder / "tree", folder / "home"
    folder.mkdir(parents=True)
    home.mkdir()
    subprocess.run(["sh", "-c", f'umask {umask}; exec "$@"', "-", *make(generation, tree)], check=True)
    own = {"HOME": str(home), "CCACHE_DIR": str(home / "ccache"), "SOURCE_DATE_EPOCH": EPOCH, **variables}
    command = [*before, *torchwheel("build", tree, *ASKED, "-o", folder / "out")]
    environment = clean_environment(home / "cache", **own)
    check("sh", "-c", f'umask {umask}; exec "$@"', "-", *command, cwd=folder, env=environment)
    (wheel,) = (folder / "out").glob("*.whl")
    return wheel


def make(generation: str, tree: Path) -> list[str]:
    script = REPOSITORY / "examples/minitorch/tools/make_generation.py"
    return [sys.executable, str(script), generation, str(tree)]


@pytest.mark.long
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_tree(generation: str, tmp_path: Path) -> None:
    one = built(tmp_path / "one", generation, "022", {})
    other = tmp_path / "an other é path" / "deeper"
    two = built(other, generation, "077", {**OTHER, "CCACHE_DISABLE": "1"}, LATER)
    assert one.read_bytes() == two.read_bytes()
    # It is known again, also where no commit says what it was built from.
    environment = clean_environment(other / "home/cache", SOURCE_DATE_EPOCH=EPOCH)
    check(*torchwheel("build", other / "tree", *ASKED, "-o", one.parent), cwd=other, env=environment)


def test_an_sdist(tmp_path: Path) -> None:
    sdists = []
    for name, umask in (("one", "022"), ("other é", "077")):
        tree = make_tree("scikit-build-core", tmp_path / name / "tree")
        for file in tree.rglob("*.py"):
            file.chmod(0o600 if umask == "077" else 0o644)
        environment = clean_environment(tmp_path / "cache", SOURCE_DATE_EPOCH=EPOCH)
        hook = "import torchwheel.backend as b; b.build_sdist('..', {'target': 'cpu'})"
        check(sys.executable, "-c", hook, cwd=tree, env=environment)
        (sdist,) = (tmp_path / name).glob("*.tar.gz")
        sdists.append(sdist)
    assert sdists[0].name == sdists[1].name
    assert sdists[0].read_bytes() == sdists[1].read_bytes()


CUDA_PROJECT = """
cmake_minimum_required(VERSION 3.19...4.0)
project(P LANGUAGES CXX CUDA)
set(CMAKE_CUDA_ARCHITECTURES 90)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
add_library(c10 SHARED c10.cpp)
add_subdirectory(cuda)
"""
CUDA_SOURCE = """
namespace { __device__ int counter; __global__ void k(float* p) { p[threadIdx.x] += counter; } }
const char* where() { return __FILE__; }
extern int c10();
void f(float* p) { k<<<1, c10()>>>(p); }
"""


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")
def test_a_library_with_device_code(tmp_path: Path) -> None:
    """Without torchwheel's file for CMake, nvcc's objects hold the number of a process and a hash of the folder."""
    for told, same in ((True, True), (False, False)):
        found = []
        for place in (tmp_path / f"{told}", tmp_path / "an other é path" / f"{told}"):
            text = cmake_file({}, maps_paths=told, reproducible=told, nvcc=nvcc_naming("13.0"))
            files = {
                "defines.cmake": text,
                "CMakeLists.txt": CUDA_PROJECT,
                "c10.cpp": "int c10() { return 1; }\n",
                "cuda/CMakeLists.txt": "add_library(c10_cuda SHARED k.cu)\ntarget_link_libraries(c10_cuda c10)\n",
                "cuda/k.cu": CUDA_SOURCE,
            }
            put_all(place, files)
            environment = clean_environment(tmp_path / "cache")
            define = f"-DCMAKE_PROJECT_INCLUDE_BEFORE={place / 'defines.cmake'}"
            check("cmake", "-GNinja", "-Bbuild", define, ".", cwd=place, env=environment)
            check("cmake", "--build", "build", cwd=place, env=environment)
            check("cmake", "--install", "build", "--prefix", "installed", cwd=place, env=environment)
            found.append((place / "build/lib/libc10_cuda.so").read_bytes())
        assert (found[0] == found[1]) is same
        assert (str(tmp_path).encode() in found[0]) is not same


@pytest.mark.skipif(shutil.which("ccache") is None, reason="no ccache on PATH")
@pytest.mark.parametrize("compiler", ["c++", "clang++"])
def test_a_build_folder_that_is_named_by_a_link(tmp_path: Path, compiler: str) -> None:
    """A source distribution's sources are named without links, and the build folder as the user's cache is."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on PATH")
    (tmp_path / "real" / "source").mkdir(parents=True)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "link").symlink_to(tmp_path / "real")
    source, build = tmp_path / "real" / "source", tmp_path / "deep" / "er" / "link" / "build"
    put(source / "defines.cmake", cmake_file({}, maps_paths=True, reproducible=True))
    (source / "where.cpp").write_text("const char* where() { return __FILE__; }\n", encoding="utf-8")
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.19...4.0)\nproject(P LANGUAGES CXX)\nadd_library(where OBJECT where.cpp)\n",
        encoding="utf-8",
    )
    base = {"CCACHE_DIR": str(tmp_path / "ccache"), "CCACHE_BASEDIR": str(tmp_path), "CCACHE_NOHASHDIR": "1"}
    environment = clean_environment(tmp_path / "cache", **base, CXX=compiler)
    defines = {
        "CMAKE_PROJECT_INCLUDE_BEFORE": source / "defines.cmake",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
    }
    options = [f"-D{name}={value}" for name, value in defines.items()]
    check("cmake", "-GNinja", f"-S{source}", f"-B{build}", *options, cwd=tmp_path, env=environment)
    check("cmake", "--build", build, cwd=tmp_path, env=environment)
    (compiled,) = build.rglob("where.cpp.o")
    held = compiled.read_bytes()
    assert (b"/pytorch/where.cpp" in held, b"source/where.cpp" in held) == (True, False)
