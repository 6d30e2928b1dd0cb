"""A build type that flags or CMake files set behind the options is found by what the compilers are told."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from places import MINITORCH
from torchwheel.engine.compiled_build_type import overruled_build_type
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey

PROJECT = """\
cmake_minimum_required(VERSION 3.18)
project(flags LANGUAGES C CXX)
{own}
add_library(one SHARED one.cpp two.cpp three.c)
{of_target}
"""
RELEASE = "CMAKE_CXX_FLAGS_RELEASE"


def configured(folder: Path, build_type: str, own: str = "", of_target: str = "", **given: str) -> Plan:
    """The plan of a build that CMake has configured in its build folder, with a project of three files."""
    if not shutil.which("cmake") or not shutil.which("ninja"):
        pytest.skip("needs cmake and ninja")
    defines = {f"define.{name}": value for name, value in given.items() if name.startswith("CMAKE_")}
    variables = {name: value for name, value in given.items() if not name.startswith("CMAKE_")}
    environment = {"TORCHWHEEL_CACHE_DIR": str(folder / "cache"), "PATH": os.environ["PATH"], **variables}
    config = {"target": "cpu", "build-type": build_type, **defines}
    plan = make_plan(survey(BuildRequest(MINITORCH, config, environment)))
    source = folder / "project"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT.format(own=own, of_target=of_target))
    for name in ("one.cpp", "two.cpp", "three.c"):
        (source / name).touch()
    options = [f"-D{one.name}={one.value}" for one in plan.defines if one.name.startswith("CMAKE_")]
    command = ["cmake", "-GNinja", *options, "-S", source, "-B", plan.folders.build]
    subprocess.run(command, env={**os.environ, **variables}, check=True, capture_output=True)
    return plan


def ids(plan: Plan) -> list[str]:
    return [problem.id for problem in overruled_build_type(plan)]


@pytest.mark.parametrize("build_type", ["Debug", "MinSizeRel", "Release", "RelWithDebInfo"])
def test_cmakes_own_flags_suit(tmp_path: Path, build_type: str) -> None:
    assert ids(configured(tmp_path, build_type)) == []


@pytest.mark.parametrize("flags", ["-O0 -g", "-Og", "-g", "-O3 -O0"])
def test_flags_of_a_build_type_that_are_replaced(tmp_path: Path, flags: str) -> None:
    (problem,) = overruled_build_type(configured(tmp_path, "Release", **{RELEASE: flags}))
    assert problem.id == "build-type-overruled"
    assert RELEASE in problem.why
    assert flags in problem.what


@pytest.mark.parametrize(
    ("build_type", "made"),
    [
        ("Release", "Debug"),
        ("RelWithDebInfo", "Debug"),
        ("MinSizeRel", "Debug"),
        ("Debug", "Release"),
        ("Debug", "RelWithDebInfo"),
        ("RelWithDebInfo", "Release"),
        ("Release", ""),
    ],
)
def test_a_cmake_file_that_sets_another_build_type(tmp_path: Path, build_type: str, made: str) -> None:
    assert ids(configured(tmp_path, build_type, f'set(CMAKE_BUILD_TYPE "{made}")')) == [
        "build-type-overruled"
    ]


def test_other_flags_are_the_users_choice(tmp_path: Path) -> None:
    """CMake puts those of the build type behind them."""
    assert ids(configured(tmp_path, "Release", CXXFLAGS="-O0 -g", CFLAGS="-O0 -g")) == []


def test_better_flags_of_a_build_type(tmp_path: Path) -> None:
    assert ids(configured(tmp_path, "Release", **{RELEASE: "-O2 -march=x86-64-v3 -g"})) == []


def test_single_files_may_have_other_flags(tmp_path: Path) -> None:
    own = "set_source_files_properties(one.cpp PROPERTIES COMPILE_OPTIONS -O0)"
    assert ids(configured(tmp_path, "Release", of_target=own)) == []


def test_without_commands_nothing_is_said(tmp_path: Path) -> None:
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin"}
    assert ids(make_plan(survey(BuildRequest(MINITORCH, {"target": "cpu"}, environment)))) == []
