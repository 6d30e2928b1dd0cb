"""CMakeCache.txt, and the comparison of what was asked with what CMake took."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.engine.configuring import Difference, find_differences, read_cmake_cache, same_value
from torchwheel.plan.build_plan import Define
from torchwheel.settings import Layer


def define(name: str, value: str, **more: bool) -> Define:
    return Define(name, value, Layer.CONFIG, f"-C define.{name}", **more)


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


@pytest.mark.parametrize(
    ("asked", "effective", "same"),
    [
        ("g++", "{}/bin/g++", True),
        ("{}/link/g++", "{}/bin/g++", True),
        ("{}/bin/c++", "{}/bin/g++", False),
        ("g++-12", "{}/bin/g++", False),
        ("{}/bin/g++", "{}/other/g++", False),
        ("{}/bin/g++", "g++", False),
    ],
)
def test_compilers_are_compared_as_programs(tmp_path: Path, asked: str, effective: str, same: bool) -> None:
    """A name is not enough for two paths, nor a file for two names: clang++ is a link to clang."""
    for folder in ("bin", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "g++").touch()
    (tmp_path / "link").symlink_to("bin")
    (tmp_path / "bin/c++").symlink_to("g++")
    wanted = define("CMAKE_CXX_COMPILER", asked.format(tmp_path))
    cache = {"CMAKE_CXX_COMPILER": effective.format(tmp_path)}
    assert (find_differences([wanted], cache) == ()) is same


def test_quotes_around_a_value_are_cmakes_own(tmp_path: Path) -> None:
    """It writes them around a value with a blank at an end."""
    cache = tmp_path / "CMakeCache.txt"
    cache.write_text("FLAGS:STRING='-Wall '\nONE:STRING='\n//DOC:STRING=no\n\"A:B\":BOOL=ON\n", "utf-8")
    assert read_cmake_cache(cache) == {"FLAGS": "-Wall ", "ONE": "'", "A:B": "ON"}


@pytest.mark.parametrize(
    ("name", "wanted", "effective", "same"),
    [
        ("CMAKE_CXX_FLAGS", "-O1 -g0", "-Wall -O1 -g0  -fPIC", True),
        ("CMAKE_PREFIX_PATH", "/opt", "/usr;/opt", True),
        ("CMAKE_CXX_FLAGS", "-O1 -g0", "-Wall -O10 -g0", False),
        ("CMAKE_CXX_FLAGS", "-O1 -g0", "-g0", False),
        ("BLAS", "MKL", "MKL;Eigen", False),
        # cmake/Modules/FindCUDNN.cmake of 2.6 appends the toolkit.
        ("CUDNN_ROOT", "/my cudnn", "/my cudnn;/usr", True),
        ("CUDNN_ROOT", "/my cudnn", "/my cudnn2;/usr", False),
        ("TORCH_CUDA_ARCH_LIST", "9.0", "9.0;12.0", False),
    ],
)
def test_what_a_tree_adds_to_flags_and_folders_is_no_difference(
    name: str, wanted: str, effective: str, same: bool
) -> None:
    found = find_differences([define(name, wanted)], {name: effective})
    assert (found == ()) is same
