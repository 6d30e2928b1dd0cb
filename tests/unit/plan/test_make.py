"""The plan as a whole: its folders, its jobs, its wheel, and that it never raises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plan.planning import GIB, LINUX, WINDOWS, Planner, toolkit, variables
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import described_host
from torchwheel.plan.build_plan import BuildFolders, Plan
from torchwheel.tree.source_tree import Tree

CPU = {"target": "cpu", "package-version": "2.14.1"}


def test_the_plan_s_own_facts(plan: Planner, modern_tree: Tree) -> None:
    made = plan(CPU)
    assert made.wheel_name == "torch-2.14.1+cpu-cp311-cp311-linux_x86_64.whl"
    assert made.tree.name == "torch"
    assert made.build_requires == ("scikit-build-core>=1.0",)
    assert made.python_executable == "/usr/bin/python3"
    assert (made.toolkit, made.architectures, made.findings, made.errors) == (None, None, (), ())
    assert made.tree is modern_tree


@pytest.mark.parametrize(
    ("name", "platform", "python", "wheel"),
    [
        ("torch", "win_amd64", "3.13.1", "torch-2.14.1+cpu-cp313-cp313-win_amd64.whl"),
        ("torch", "linux_aarch64", "3.10.2", "torch-2.14.1+cpu-cp310-cp310-linux_aarch64.whl"),
        (
            "torch-cpu.nightly",
            "linux_x86_64",
            "3.12.0",
            "torch_cpu_nightly-2.14.1+cpu-cp312-cp312-linux_x86_64.whl",
        ),
    ],
)
def test_the_wheel_s_name(
    plan: Planner, modern_tree: Tree, name: str, platform: str, python: str, wheel: str
) -> None:
    host = described_host(platform, python_version=python)
    assert plan(CPU, tree=replace(modern_tree, name=name), host=host).wheel_name == wheel


# --- folders


def root(plan: Plan) -> str:
    return f"torch-cu130.sm90-{plan.fingerprint}"


def test_a_staged_build_has_a_folder_of_its_own(plan: Planner) -> None:
    made = plan({"target": "h100", "package-version": "2.14.1"})
    folder = plan.cache / "builds" / root(made)
    assert made.folders == BuildFolders(
        cache=plan.cache, root=folder, source=folder / "source", build=folder / "build", environment=None
    )
    assert made.folders.staged
    assert made.folders.log == folder / "build.log"
    assert made.folders.cmake_cache == folder / "build" / "CMakeCache.txt"
    assert made.folders.defines_file == folder / "torchwheel-defines.cmake"


def test_setup_py_builds_below_its_source(legacy_plan: Planner) -> None:
    made = legacy_plan({"target": "cpu", "package-version": "2.6.0"})
    assert made.folders.build == made.folders.source / "build"
    assert made.folders.source == made.folders.root / "source"


@pytest.mark.parametrize("planner", ["plan", "legacy_plan"])
def test_a_build_in_place(planner: str, request: pytest.FixtureRequest) -> None:
    planning: Planner = request.getfixturevalue(planner)
    made = planning(CPU, in_place=True)
    assert made.folders.source == planning.tree.root
    assert not made.folders.staged
    expected = planning.tree.root / "build" if planner == "legacy_plan" else made.folders.root / "build"
    assert made.folders.build == expected


def test_a_build_dir_of_the_user_s_own_still_keeps_builds_apart(plan: Planner, tmp_path: Path) -> None:
    own = plan({**CPU, "build-dir": str(tmp_path / "eigene Bauten")})
    assert own.folders.root == tmp_path / "eigene Bauten" / f"torch-cpu-{own.fingerprint}"


# --- jobs


def test_jobs_follow_memory_and_cores(plan: Planner) -> None:
    small = replace(LINUX, memory_bytes=8 * GIB, cores=32)
    assert plan(CPU, host=small).jobs == Jobs(
        cxx=7,
        cuda=None,
        flash_attention=None,
        max_jobs=32,
        reason="32 cores; each compiler waits until its part of 7.2 GiB of memory is free",
        budget=8 * GIB - int(0.8 * GIB),
    )
    assert plan(CPU, host=replace(WINDOWS, memory_bytes=8 * GIB, cores=32)).jobs == Jobs(
        3, None, None, 3, "8.0 GiB of memory is enough for 3 jobs: a compile takes up to 2.0 GiB"
    )


def test_jobs_that_are_asked_for_win(plan: Planner) -> None:
    asked = plan({"target": "h100", "package-version": "2.14.1", "jobs": "3"})
    assert (asked.jobs.max_jobs, asked.jobs.reason) == (3, "3 jobs requested")
    told = variables(asked)
    assert (told["MAX_JOBS"], told["CMAKE_BUILD_PARALLEL_LEVEL"]) == ("3", "3")


def test_setup_py_would_make_an_option_of_cmake_s_own_variable(legacy_plan: Planner) -> None:
    told = variables(legacy_plan({"target": "cpu", "package-version": "2.6.0", "jobs": "3"}))
    assert told["MAX_JOBS"] == "3"
    assert "CMAKE_BUILD_PARALLEL_LEVEL" not in told


# --- a plan comes of everything that can be asked for

TARGETS = st.sampled_from([None, "cpu", "rtx5070", "gb10", "v100", "a100,t4", "native", "thor"])
ARCHITECTURES = st.sampled_from([None, "8.0", "5.0;11.0", "compute_90", "12.0f", "9.0a+PTX", "Blackwell"])
RANGES = st.sampled_from([None, "12.6", ">=13", "<11", "==12.8.*,!=12.8.1"])
PLATFORMS = st.sampled_from(
    ["linux_x86_64", "linux_aarch64", "win_amd64", "macosx_14_0_arm64", "linux_riscv64"]
)
VERSIONS = st.sampled_from(["2.0.0", "2.6.0a0", "2.14.1", "99.0", "nonsense", ""])
INSTALLED = st.lists(
    st.builds(toolkit, st.sampled_from(["11.8", "12.4", "13.0", "99.1"]), nvcc=st.sampled_from(["", None])),
    max_size=3,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TARGETS, ARCHITECTURES, RANGES, PLATFORMS, VERSIONS, INSTALLED, st.booleans(), st.booleans())
def test_it_never_raises_for_a_bad_request(
    plan: Planner,
    legacy_tree: Tree,
    target: str | None,
    architectures: str | None,
    cuda: str | None,
    platform: str,
    version: str,
    installed: list,
    here: bool,
    legacy: bool,
) -> None:
    asked = {"target": target, "arch": None if target == "cpu" else architectures, "cuda": cuda}
    tree = replace(legacy_tree if legacy else plan.tree, version_text=version)
    host = replace(described_host(platform, python_version="3.12.1"), here=here)
    made = plan(
        {key: value for key, value in asked.items() if value}, tree=tree, host=host, toolkits=installed
    )
    # What cannot be built says so, and what says nothing can be built.
    complete = made.settings.is_cpu or (made.toolkit is not None and made.toolkit.nvcc is not None)
    assert complete or made.errors
    names = [define.name for define in made.defines]
    assert names == sorted(set(names))
    assert [v.name for v in made.variables] == sorted({v.name for v in made.variables})
