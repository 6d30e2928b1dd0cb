"""What a plan says about the request itself: what it lacks, and which settings contradict each other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from places import REPOSITORY
from plan.planning import Planner, finding, ids, options, rendered, variables
from refusals import error_of
from said import said
from torchwheel.host.machine import described_host
from torchwheel.plan.request_checks import architecture_findings, shared_cache
from torchwheel.reporting.errors import Problem, TorchwheelError, error, stop_on_errors
from torchwheel.tree.source_tree import Tree

CPU = {"target": "cpu", "package-version": "2.14.1"}
NO_NCCL = '[tool.torchwheel]\ntarget = "h100"\npackage-version = "2.14.1"\ndisable = ["nccl"]\n'


def test_no_target(plan: Planner) -> None:
    nothing = plan({"package-version": "2.14.1"})
    assert rendered(nothing.findings) == [said("error: no-target")]
    assert (nothing.architectures, nothing.toolkit) == (None, None)


def test_architectures_alone_are_enough_and_switch_cuda_on(plan: Planner) -> None:
    listed = plan({"arch": "8.0", "package-version": "2.14.1"})
    assert ids(listed) == ["toolkit-assumed"]
    assert (options(listed)["USE_CUDA"], variables(listed)["USE_CUDA"]) == ("ON", "1")
    assert listed.wheel_name == "torch-2.14.1+cu130.sm80-cp311-cp311-linux_x86_64.whl"


def test_a_secret_in_flags_is_found_and_not_repeated(plan: Planner) -> None:
    found = plan({**CPU, "env.CXXFLAGS": "-DAPI_TOKEN=hunter2-hunter2 -O2", "define.CMAKE_CXX_FLAGS": "-g"})
    assert ids(found) == ["secret-in-flags"]
    assert "-DAPI_TOKEN=*** -O2" in rendered(found.findings)[0]


@pytest.mark.parametrize("off", ["false", "OFF", "0"])
def test_architectures_against_a_switched_off_cuda(plan: Planner, off: str) -> None:
    contrary = plan({"arch": "8.0", "package-version": "2.14.1", "define.USE_CUDA": off})
    assert rendered(contrary.errors) == [
        said("error: arch-contradicts-cuda", "-C define.USE_CUDA", "8.0", "-C arch", off)
    ]


def test_native_on_another_machine(plan: Planner) -> None:
    windows = described_host("win_amd64", python_version="3.11.7", python_executable="python.exe")
    native = plan({"target": "native", "package-version": "2.14.1"}, host=windows)
    assert rendered(native.findings) == [said("error: native-elsewhere", "-C target", "win_amd64")]
    assert native.wheel_name == "torch-2.14.1-cp311-cp311-win_amd64.whl"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (1, "third_party/a"),
        (7, "third_party/a, third_party/b, third_party/c, third_party/d, third_party/e and 2 more"),
    ],
)
def test_missing_submodules(plan: Planner, modern_tree: Tree, count: int, shown: str) -> None:
    root = "/pfad mit ü/pytorch"
    missing = tuple(f"third_party/{letter}" for letter in "abcdefg"[:count])
    bare = plan(CPU, tree=replace(modern_tree, root=Path(root), missing_submodules=missing))
    text = said("error: missing-submodules", f"{root}/.gitmodules", count, shown, f"'{root}'")
    assert rendered(bare.findings) == [text]


def test_a_skipped_check_stays_in_the_plan_and_stops_nothing(plan: Planner, modern_tree: Tree) -> None:
    bare = replace(modern_tree, missing_submodules=("third_party/fbgemm",))
    skipped = plan({**CPU, "skip-check": "missing-submodules"}, tree=bare)
    assert ids(skipped) == ["missing-submodules"]
    stop_on_errors(skipped.findings, skipped.settings.skip_check)
    with pytest.raises(TorchwheelError, match="third_party/fbgemm"):
        stop_on_errors(skipped.findings, ())


# --- the environment against the rest


def test_an_ambient_variable_beats_the_project(plan: Planner) -> None:
    ambient = plan(pyproject=NO_NCCL, environment={"USE_NCCL": "1"})
    assert (options(ambient)["USE_NCCL"], variables(ambient)["USE_NCCL"]) == ("1", "1")
    assert finding(ambient, "ambient-decides") == said(
        "warning: ambient-decides",
        "define.USE_NCCL is 1 (variable USE_NCCL), not false (pyproject.toml [tool.torchwheel])",
    )


def test_config_settings_beat_an_ambient_variable(plan: Planner) -> None:
    overruled = plan(
        {"disable": "nccl", "jobs": "4"},
        pyproject='[tool.torchwheel]\ntarget = "h100"\npackage-version = "2.14.1"\n',
        environment={"USE_NCCL": "1", "MAX_JOBS": "64"},
    )
    assert (options(overruled)["USE_NCCL"], variables(overruled)["USE_NCCL"]) == ("OFF", "0")
    assert finding(overruled, "ambient-overruled") == said(
        "note: ambient-overruled",
        "variable USE_NCCL=1 (define.USE_NCCL is false: -C disable); variable MAX_JOBS=64 (jobs is 4: "
        "-C jobs)",
    )


@pytest.mark.parametrize(
    ("config", "pyproject", "environment"),
    [
        ({"cuda": ">=12"}, NO_NCCL, {"USE_NCCL": "OFF"}),
        # Over a built-in default, and in other words.
        (CPU, "", {"DEBUG": "1"}),
        ({**CPU, "disable": "kineto", "env.USE_KINETO": "OFF"}, "", {}),
        # CMake's own variables, and the user's.
        ({**CPU, "env.CMAKE_POLICY_VERSION_MINIMUM": "3.5", "env.HF_TOKEN": "x"}, "", {}),
    ],
)
def test_variables_that_need_no_remark(
    plan: Planner, config: dict[str, str], pyproject: str, environment: dict[str, str]
) -> None:
    assert {*ids(plan(config, pyproject=pyproject, environment=environment))} <= {"toolkit-assumed"}


def test_a_variable_beside_an_option_of_the_same_table_loses_and_is_told(plan: Planner) -> None:
    """PyTorch's build would let the variable win."""
    project = (
        '[tool.torchwheel]\npackage-version = "2.14.1"\ndefine.USE_KINETO = false\nenv.USE_KINETO = "1"\n'
    )
    both = plan({"target": "cpu"}, pyproject=project)
    assert (options(both)["USE_KINETO"], variables(both)["USE_KINETO"]) == ("OFF", "0")
    assert rendered(both.findings) == [
        said("warning: variable-overruled", "pyproject.toml [tool.torchwheel]", "0", "-C define.USE_KINETO=1")
    ]


def test_cmake_arguments_that_setup_py_cannot_take(legacy_plan: Planner, plan: Planner) -> None:
    environment = {"CMAKE_ARGS": "--debug-find -Wno-dev -DUSE_NCCL=OFF"}
    assert ids(legacy_plan({**CPU, "package-version": "2.6.0"}, environment=environment)) == [
        "arguments-not-forwarded"
    ]
    assert ids(plan(CPU, environment=environment)) == []


def test_errors_come_before_warnings_and_notes(plan: Planner) -> None:
    everything = plan(
        {"arch": "8.0", "define.USE_CUDA": "off", "define.USE_NOTHING": "1"},
        environment={"BUILD_NUMBER": "1"},
    )
    assert [(f.severity.value, f.id) for f in everything.findings] == [
        ("error", "arch-contradicts-cuda"),
        ("warning", "prerelease-version"),
        ("warning", "unknown-options"),
        ("note", "ignored-variables"),
        ("note", "toolkit-assumed"),
    ]


# --- architectures

RELEASE = {"package-version": "2.14.1"}


@pytest.mark.parametrize(
    ("version", "arch", "refused"),
    [
        ("2.6.0a0", "9.0a;10.0f;12.0f+PTX", ["10.0f, 12.0f"]),
        ("2.8.0", "9.0a;10.0f;12.0f+PTX", ["10.0f, 12.0f"]),
        ("2.5.1", "9.0a;10.0;12.0+PTX", ["10.0, 12.0"]),
        ("2.3.1", "8.0;9.0a+PTX", ["9.0a"]),
        ("2.9.0", "12.0f", []),
        ("2.14.1a0", "12.0f", []),
        ("3.0.0", "12.0f", []),
        ("unreadable", "12.0f", []),
        ("2.0.1", "7.5;8.9", []),
        ("2.3.1", "9.0+PTX", []),
        ("2.4.1", "9.0a", []),
        ("2.6.0", "10.0;12.0a;12.1+PTX", []),
    ],
)
def test_what_a_release_takes(
    plan: Planner, modern_tree: Tree, version: str, arch: str, refused: list[str]
) -> None:
    inputs = plan.inputs({"arch": arch}, tree=replace(modern_tree, version_text=version))
    assert inputs.settings.arch is not None
    found = rendered(architecture_findings(inputs.settings, inputs.tree, inputs.settings.arch))
    assert found == [said("error: tree-lacks-architecture", "-C arch", version, one) for one in refused]


def test_ptx_alone_is_an_error_not_an_exception(plan: Planner) -> None:
    refused = plan({"arch": "8.0;compute_90;ptx120", "cuda": "12.9"} | RELEASE)
    assert [finding.problem for finding in refused.errors] == [
        Problem.of("ptx-without-sass", origin="-C arch", dotted="9.0", item="compute_90"),
        Problem.of("ptx-without-sass", origin="-C arch", dotted="12.0", item="compute_120"),
    ]


def test_both_ways_to_the_arch_list_are_told_the_same(plan: Planner) -> None:
    mixed = plan({"arch": "sm_120, 8.0 9.0+PTX", "cuda": "12.9"} | RELEASE)
    assert options(mixed)["TORCH_CUDA_ARCH_LIST"] == "8.0;9.0+PTX;12.0"
    assert variables(mixed)["TORCH_CUDA_ARCH_LIST"] == "8.0;9.0+PTX;12.0"


def test_an_ambient_list_that_the_target_cannot_run(plan: Planner) -> None:
    project = '[tool.torchwheel]\ntarget = "rtx5070"\npackage-version = "2.14.1"\n'
    ambient = plan(pyproject=project, environment={"TORCH_CUDA_ARCH_LIST": "8.9"})
    assert options(ambient)["TORCH_CUDA_ARCH_LIST"] == "8.9"
    assert [one.id for one in ambient.findings if one.severity.value == "warning"] == ["ambient-decides"]
    (problem,) = (one.problem for one in ambient.errors)
    assert (problem.id, problem.origin) == ("target-cannot-run", "variable TORCH_CUDA_ARCH_LIST")
    assert "unset TORCH_CUDA_ARCH_LIST" in problem.remedy


@pytest.mark.parametrize(
    ("target", "arch", "left_out"),
    [
        ("a100,t4,l4", "8.0", ["Tesla T4"]),
        ("l4", "8.0", []),
        ("l4", "8.9", []),
        ("l4", "7.5+PTX", []),
        ("l4", "8.0;12.0", []),
    ],
)
def test_each_target_that_is_left_out_is_named(
    plan: Planner, target: str, arch: str, left_out: list[str]
) -> None:
    made = plan({"target": target, "arch": arch, "cuda": "12.9"} | RELEASE)
    found = rendered(one for one in made.findings if one.id == "target-cannot-run")
    assert found == [said("error: target-cannot-run", "-C arch", gpu) for gpu in left_out]


@pytest.mark.parametrize("key", ["build.targets", "skbuild.build.targets", "install.components"])
def test_a_part_is_not_built_where_all_is_packed(key: str, plan: Planner) -> None:
    found = plan({**CPU, key: "c10"}).findings
    assert rendered(found) == [said("error: partial-build", f"-C {key.removeprefix('skbuild.')}")]


def test_an_option_among_cmakes_arguments_is_one_of_the_build(plan: Planner, legacy_plan: Planner) -> None:
    """Else the wheel would be called as if it were like any other."""
    for arguments in ("-DUSE_OPENMP:BOOL=OFF", ["-D", "USE_OPENMP=OFF"], "-DUSE_OPENMP=OFF;-DUSE_OPENMP=OFF"):
        for planner in (plan, legacy_plan):
            made = planner({**CPU, "skbuild.cmake.args": arguments})
            assert (str(made.version), ids(made)) == ("2.14.1+cpu.noopenmp", [])
            assert options(made)["USE_OPENMP"] == "OFF"
    assert str(error_of(plan, {"target": "cpu", "cmake.args": "-DUSE_MPI=ON", "disable": "mpi"})) == said(
        "contradiction", "-C cmake.args -DUSE_MPI and -C disable", "define.USE_MPI is ON", "disable names mpi"
    )


@pytest.mark.parametrize(
    ("given", "own", "other"),
    [
        ({"skbuild.wheel.exclude": "torch/bin/*"}, "setuptools", "scikit-build-core"),
        ({"wheel.build-tag": "7"}, "setuptools", "scikit-build-core"),
        ({"cmake.args": "-DUSE_MPI=OFF;-Wno-dev"}, "setuptools", "scikit-build-core"),
        ({"--build-option": "--verbose"}, "scikit-build-core", "setuptools"),
    ],
)
def test_what_the_trees_own_backend_does_not_know_is_an_error(
    given: dict[str, str], own: str, other: str, plan: Planner, legacy_plan: Planner
) -> None:
    planners = {"setuptools": (legacy_plan, "2.6.0a0"), "scikit-build-core": (plan, "2.14.1a0")}
    planner, version = planners[own]
    (bare,) = (key.removeprefix("skbuild.") for key in given)
    made = planner(CPU | given)
    assert rendered(made.findings) == [
        said("error: setting-of-another-backend", f"-C {bare}", bare, other, f"torch {version}", own)
    ]
    assert planners[other][0](CPU | given).errors == ()


def test_how_another_backend_would_build_is_no_error(plan: Planner, legacy_plan: Planner) -> None:
    """One command may serve trees of both generations."""
    verbose = {
        "build.verbose": "true",
        "logging.level": "INFO",
        "sdist.exclude": "docs",
        "editable_mode": "strict",
    }
    for planner in (plan, legacy_plan):
        assert ids(planner(CPU | verbose)) == []


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("USE_OPENMP=0", "-C define.USE_OPENMP=0"),
        ("USE_CUDA_STATIC_LINK=1", "-C define.CAFFE2_STATIC_LINK_CUDA=1"),
        ("DEBUG=1", "-C build-type=Debug"),
        ("CMAKE_ARGS=-DUSE_MPI=OFF", ""),
        ("SKBUILD_CMAKE_DEFINE=USE_MPI=OFF", ""),
        ("DESTDIR=/x", ""),
    ],
)
def test_a_variable_that_the_build_would_obey_unseen_is_an_error(
    variable: str, said: str, plan: Planner, legacy_plan: Planner
) -> None:
    name, _, value = variable.partition("=")
    for planner in (plan, legacy_plan):
        (problem,) = (finding.problem for finding in planner({**CPU, f"env.{name}": value}).errors)
        assert (problem.id, problem.origin) == ("unseen-variable", f"-C env.{name}")
        assert said in problem.remedy


def test_what_messages_and_pages_advise_is_taken(plan: Planner) -> None:
    """A remedy that ends in another error is none."""
    root = REPOSITORY
    files = [*(root / "src").rglob("*.py"), *(root / "src").rglob("*.toml"), *(root / "docs").glob("*.md")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    names = set(re.findall(r"-C \"?env\.(\w+)=", text))
    assert {"CUDAHOSTCXX", "CXXFLAGS"} <= names
    made = plan({**CPU, **{f"env.{name}": "/x" for name in names}})
    assert [one.problem.origin for one in made.findings if one.id == "unseen-variable"] == []


def test_a_name_that_only_setup_py_reads_changes_nothing(plan: Planner, legacy_plan: Planner) -> None:
    asked = {**CPU, "env.TORCH_PACKAGE_NAME": "torch-own"}
    assert ids(plan(asked)) == ["name-not-read"]
    assert ids(legacy_plan(asked)) == []
    assert ids(plan(asked | {"env.TORCH_PACKAGE_NAME": "torch"})) == []


def test_what_would_make_another_wheel_unseen_does_not_reach_the_build(plan: Planner) -> None:
    ambient = {"SKBUILD_WHEEL_EXCLUDE": "torch/lib/*", "DESTDIR": "/x", "DIST_EXTRA_CONFIG": "/x.cfg"}
    made = plan(CPU, environment={**ambient, "BUILD_ID": "7"})
    assert not ambient.keys() & variables(made).keys()
    assert ids(made) == ["variables-kept-out", "ignored-variables"]
    assert all(name in made.findings[0].problem.what for name in ambient)


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ('[tool.scikit-build]\nwheel.exclude = ["torch/test/*"]\n', "[tool.scikit-build]"),
        (
            '[tool.setuptools]\npackages = ["x"]\n[tool.scikit-build.cmake.define]\nUSE_MPI = "OFF"\n',
            "[tool.scikit-build] and [tool.setuptools]",
        ),
    ],
)
def test_a_wrapper_configures_no_backend(tables: str, named: str, plan: Planner) -> None:
    project = '[tool.torchwheel]\ntarget = "cpu"\npackage-version = "2.14.1"\n'
    wrapped = plan(pyproject=f'{project}source = "{plan.tree.root.as_posix()}"\n{tables}')
    assert rendered(wrapped.findings) == [said("error: wrapper-backend-unused", "pyproject.toml", named)]
    assert ids(plan(pyproject=project + tables)) == []


@pytest.mark.parametrize(
    ("table", "unused"),
    [
        ('name = "torch"\ndynamic = ["version"]', ""),
        ('name = "Torch"\nversion = "2.14.1"', ""),
        ('name = "my-torch"\nversion = "2.14.1"', "name"),
        ('name = "torch"\nversion = "9.0"\ndependencies = ["numpy"]', "dependencies, version"),
        ('name = "torch"\nrequires-python = ">=3.12"', "requires-python"),
    ],
)
def test_what_a_wrapper_says_of_itself_is_met_or_an_error(table: str, unused: str, plan: Planner) -> None:
    tool = f"[tool.torchwheel]\nsource = '{plan.tree.root.as_posix()}'\ntarget = 'cpu'\npackage-version = '2.14.1'\n"
    made = plan(pyproject=f"[project]\n{table}\n{tool}")
    expected = [said("error: project-metadata-unused", "pyproject.toml", unused, "torch")]
    assert rendered(made.findings) == (expected if unused else [])
    # A tree's own [project] is its own.
    assert ids(plan(CPU, pyproject=f"[project]\n{table}\n")) == []


def test_a_cache_folder_that_others_can_write_to() -> None:
    writers = "the group staff, in /cache"
    assert [*shared_cache(""), *shared_cache(writers)] == [
        error(Problem.of("cache-not-private", writers=writers))
    ]


@pytest.mark.parametrize(
    ("option", "value", "refused"),
    [
        ("CMAKE_SYSTEM_PROCESSOR", "aarch64", True),
        ("CMAKE_SYSTEM_NAME", "Windows", True),
        ("CMAKE_SYSTEM_PROCESSOR", "AMD64", False),
        ("CMAKE_SYSTEM_NAME", "Linux", False),
    ],
)
def test_a_cross_build_has_no_name(plan: Planner, option: str, value: str, refused: bool) -> None:
    for asked in ({f"define.{option}": value}, {}):
        environment = {} if asked else {option: value}
        made = plan(CPU | asked, environment=environment)
        assert [one.id for one in made.errors] == (["another-platform"] if refused else [])


def refused(plan: Planner, config: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.id, one.problem.origin) for one in plan({**CPU, **config}).errors]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("wheel.tags", "py3-none-any"),
        ("skbuild.wheel.tags", ["cp311-cp311-manylinux_2_28_x86_64"]),
        ("wheel.py-api", "cp310"),
        ("wheel.platlib", False),
        ("wheel.install-dir", "elsewhere"),
    ],
)
def test_settings_that_name_another_wheel(plan: Planner, key: str, value: Any) -> None:
    assert refused(plan, {key: value}) == [("wheel-tag", f"-C {key.removeprefix('skbuild.')}")]
    # Somebody may know that the wheel runs on older systems.
    assert refused(plan, {key: value, "skip-check": "wheel-tag"}) == []


def test_an_empty_one_changes_nothing(plan: Planner) -> None:
    assert refused(plan, {"wheel.tags": "", "wheel.py-api": ""}) == []


@pytest.mark.parametrize(
    ("options", "refusals"),
    [
        ("--build-number=7", 1),
        (["--build-num", "7", "--compression=stored"], 1),
        ("-v --plat-name linux_aarch64 --py-limited-api=cp39", 1),
        ("--verbose --compression=deflated --keep-temp", 0),
    ],
)
def test_options_of_bdist_wheel(legacy_plan: Planner, options: Any, refusals: int) -> None:
    made = refused(legacy_plan, {"--build-option": options})
    assert made == [("wheel-tag", "-C --build-option")] * refusals
