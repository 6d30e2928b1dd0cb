"""The CUDA path reaches every place where some piece of CMake looks for it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from plan.planning import LINUX, Planner, finding, ids, options, toolkit, variables
from said import said
from torchwheel.host.machine import Compiler, described_host
from torchwheel.plan.build_plan import Plan

ROOT = "/opt/cuda toolkits/13.0"
WINDOWS_ROOT = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.9"
BOTH = pytest.mark.parametrize("planner", ["plan", "legacy_plan"])
ROOT_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_BIN_PATH", "CUDA_TOOLKIT_ROOT", "CUDAToolkit_ROOT")


def named(plan: Planner, config: dict[str, str] | None = None, **more: object) -> Plan:
    asked = {"target": "rtx5070", "package-version": "2.14.1", "cuda-path": ROOT} | (config or {})
    return plan(asked, named=toolkit("13.0", ROOT), **more)


def told(plan: Plan) -> dict[str, str]:
    """Whatever the plan says about CUDA."""
    names = (*ROOT_VARIABLES, "CUDACXX", "PATH", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in variables(plan).items() if name in names}
    names = ("CUDA_TOOLKIT_ROOT_DIR", "CUDAToolkit_ROOT", "CMAKE_CUDA_COMPILER", "CUDA_NVCC_EXECUTABLE")
    return environment | {f"-D{name}": value for name, value in options(plan).items() if name in names}


@BOTH
def test_every_place_is_told_the_same(planner: str, request: pytest.FixtureRequest) -> None:
    assert told(named(request.getfixturevalue(planner))) == {
        **dict.fromkeys(ROOT_VARIABLES, ROOT),
        "CUDACXX": f"{ROOT}/bin/nvcc",
        "PATH": f"{ROOT}/bin:+",
        "LD_LIBRARY_PATH": f"{ROOT}/lib64:+",
        "-DCUDA_TOOLKIT_ROOT_DIR": ROOT,
        "-DCUDAToolkit_ROOT": ROOT,
        "-DCMAKE_CUDA_COMPILER": f"{ROOT}/bin/nvcc",
    }


@BOTH
def test_windows_has_no_library_path(planner: str, request: pytest.FixtureRequest) -> None:
    windows = described_host("win_amd64", python_version="3.11.9", python_executable="python.exe")
    plan = request.getfixturevalue(planner)(
        {"target": "rtx5070", "cuda-path": WINDOWS_ROOT, "package-version": "2.8.0"}, host=windows
    )
    assert told(plan) == {
        **dict.fromkeys(ROOT_VARIABLES, WINDOWS_ROOT),
        "CUDACXX": rf"{WINDOWS_ROOT}\bin\nvcc.exe",
        "PATH": rf"{WINDOWS_ROOT}\bin;+",
        # A backslash begins an escape to FindCUDA, and in CMakeCUDACompiler.cmake of CMake 3.25.
        "-DCUDA_TOOLKIT_ROOT_DIR": WINDOWS_ROOT.replace("\\", "/"),
        "-DCUDAToolkit_ROOT": WINDOWS_ROOT.replace("\\", "/"),
        "-DCMAKE_CUDA_COMPILER": f"{WINDOWS_ROOT}/bin/nvcc.exe".replace("\\", "/"),
    }


def test_every_ambient_spelling_of_the_path_is_one_setting(plan: Planner) -> None:
    for name in (*ROOT_VARIABLES, "CUDA_TOOLKIT_ROOT_DIR"):
        environment = {name: "/opt/cuda-12.9"}
        ambient = plan({"target": "rtx5070", "package-version": "2.14.1"}, environment=environment)
        expected = dict.fromkeys(ROOT_VARIABLES, "/opt/cuda-12.9")
        assert {k: v for k, v in variables(ambient).items() if k in ROOT_VARIABLES} == expected


def test_search_paths_that_are_there_come_after_the_toolkit(plan: Planner) -> None:
    ambient = named(plan, {"env.PATH": "/only"}, environment={"LD_LIBRARY_PATH": "/a:/b"})
    assert variables(ambient)["LD_LIBRARY_PATH"] == f"{ROOT}/lib64:/a:/b"
    assert variables(ambient)["PATH"] == f"{ROOT}/bin:/only"
    assert ids(ambient) == []


@BOTH
def test_a_toolkit_of_conda_s_layout_has_a_stand_in(planner: str, request: pytest.FixtureRequest) -> None:
    asked = request.getfixturevalue(planner)
    include = "/opt/conda/targets/x86_64-linux/include"
    conda = replace(toolkit("13.0", "/opt/conda"), include_dirs=(include,))
    kept = asked(
        {"target": "rtx5070", "package-version": "2.14.1"},
        environment={"CUDA_HOME": "/opt/conda", "CUDACXX": "/opt/conda/bin/nvcc"},
        named=conda,
    )
    folder = variables(kept)["CUDA_HOME"]
    assert Path(folder).parent == asked.cache / "toolkits"
    assert told(kept) == {
        **dict.fromkeys(ROOT_VARIABLES, folder),
        "CUDACXX": f"{folder}/bin/nvcc",
        "PATH": f"{folder}/bin:+",
        "LD_LIBRARY_PATH": f"{folder}/lib64:+",
        "-DCUDA_TOOLKIT_ROOT_DIR": folder,
        "-DCUDAToolkit_ROOT": folder,
        "-DCMAKE_CUDA_COMPILER": f"{folder}/bin/nvcc",
    }
    assert (kept.toolkit, "nvcc-elsewhere" in ids(kept)) == (conda, False)


# --- a compiler of the user's own


@pytest.mark.parametrize("name", ["CUDACXX", "CMAKE_CUDA_COMPILER", "CUDA_NVCC_EXECUTABLE"])
@pytest.mark.parametrize("text", ["nvcc", "{}/bin/nvcc", "{}/../link", "{}/../other/nvcc"])
def test_other_names_of_the_toolkits_compiler(plan: Planner, tmp_path: Path, name: str, text: str) -> None:
    """CMake finds no toolkit beside a link, and searches other folders for a name before those of PATH."""
    root = tmp_path / "13.0"
    for folder in (root / "bin", tmp_path / "other"):
        folder.mkdir(parents=True)
    (root / "bin/nvcc").touch()
    (tmp_path / "link").symlink_to("13.0/bin/nvcc")
    (tmp_path / "other/nvcc").symlink_to("../13.0/bin/nvcc")
    same = plan(
        {"target": "rtx5070", "package-version": "2.14.1"},
        environment={name: text.format(root)},
        toolkits=[toolkit("13.0", str(root))],
    )
    assert {told(same)["CUDACXX"], told(same)["-DCMAKE_CUDA_COMPILER"]} == {f"{root}/bin/nvcc"}
    assert told(same).get("-DCUDA_NVCC_EXECUTABLE", f"{root}/bin/nvcc") == f"{root}/bin/nvcc"
    assert ids(same) == []


@pytest.mark.parametrize("text", ["nvcc", "{}/link"])
def test_other_names_with_arguments(plan: Planner, tmp_path: Path, text: str) -> None:
    root = tmp_path / "13.0"
    (root / "bin").mkdir(parents=True)
    (root / "bin/nvcc").touch()
    (tmp_path / "link").symlink_to("13.0/bin/nvcc")
    kept = plan(
        {"target": "rtx5070", "package-version": "2.14.1"},
        environment={"CUDACXX": shlex.quote(text.format(tmp_path)) + " -O2"},
        toolkits=[toolkit("13.0", str(root))],
    )
    assert told(kept)["CUDACXX"] == f"{shlex.quote(f'{root}/bin/nvcc')} -O2"
    assert "-DCMAKE_CUDA_COMPILER" not in told(kept)
    assert ids(kept) == []


def test_an_ambient_compiler_decides_where_nothing_higher_names_a_toolkit(plan: Planner) -> None:
    """Both ways to name a compiler must agree: -DCMAKE_CUDA_COMPILER would beat CUDACXX."""
    wrapper = "/usr/lib/ccache/nvcc"
    kept = plan(
        {"target": "rtx5070", "package-version": "2.14.1"},
        environment={"CUDA_HOME": ROOT, "CUDACXX": wrapper},
        named=toolkit("13.0", ROOT),
    )
    assert (told(kept)["CUDACXX"], told(kept)["-DCMAKE_CUDA_COMPILER"]) == (wrapper, wrapper)
    assert finding(kept, "nvcc-elsewhere") == said(
        "warning: nvcc-elsewhere", "variable CUDACXX", wrapper, ROOT
    )


def test_a_toolkit_of_a_higher_layer_brings_its_own_compiler(plan: Planner) -> None:
    environment = {"CUDACXX": "/old/bin/nvcc", "CUDA_NVCC_EXECUTABLE": "/old/bin/nvcc"}
    overruled = named(plan, environment=environment)
    nvcc = f"{ROOT}/bin/nvcc"
    assert {k: v for k, v in told(overruled).items() if v == nvcc} == {
        "CUDACXX": nvcc,
        "-DCMAKE_CUDA_COMPILER": nvcc,
        "-DCUDA_NVCC_EXECUTABLE": nvcc,
    }
    assert finding(overruled, "variable-overruled") == said(
        "warning: variable-overruled", "variable CUDACXX", nvcc, "-C cuda-path", "/old/bin/nvcc"
    )
    (variable,) = (v for v in overruled.variables if v.name == "CUDACXX")
    assert [s.text for s in variable.replaced] == ["/old/bin/nvcc"]


@pytest.mark.parametrize(
    ("given", "told_so"), [("cu130", 0), ("13.0", 0), ("13.0.2", 0), ("cu126", 1), ("12.6", 1), ("cpu", 1)]
)
def test_a_release_that_is_spelled_otherwise_is_the_same(plan: Planner, given: str, told_so: int) -> None:
    made = named(plan, environment={"DESIRED_CUDA": given})
    assert [one.id for one in made.findings].count("variable-overruled") == told_so
    assert [one.value for one in made.variables if one.name == "DESIRED_CUDA"] == ["13.0"]


def test_a_command_line_of_a_variable_is_left_to_cmake(plan: Planner) -> None:
    """-D takes a path alone."""
    wrapped = f"ccache {ROOT}/bin/nvcc"
    kept = named(plan, {"env.CUDACXX": wrapped})
    assert told(kept)["CUDACXX"] == wrapped
    assert "-DCMAKE_CUDA_COMPILER" not in told(kept)


def test_the_option_beats_the_variable(plan: Planner) -> None:
    environment = {"CUDACXX": "/variable/nvcc", "CMAKE_CUDA_COMPILER": "/option/nvcc"}
    both = plan({"target": "rtx5070", "package-version": "2.14.1"}, environment=environment)
    assert (told(both)["CUDACXX"], told(both)["-DCMAKE_CUDA_COMPILER"]) == ("/option/nvcc", "/option/nvcc")


def test_a_contrary_variable_does_not_reach_the_build(plan: Planner) -> None:
    contrary = named(plan, {"env.CUDA_HOME": "/elsewhere"})
    assert variables(contrary)["CUDA_HOME"] == ROOT
    assert finding(contrary, "variable-overruled") == said(
        "warning: variable-overruled", "-C env.CUDA_HOME", ROOT, "-C cuda-path=/elsewhere"
    )


def test_without_a_compiler_none_is_named(plan: Planner) -> None:
    runtime = toolkit("13.0", ROOT, nvcc=None)
    refused = plan({"target": "rtx5070", "package-version": "2.14.1", "cuda-path": ROOT}, named=runtime)
    assert told(refused) == {
        **dict.fromkeys(ROOT_VARIABLES, ROOT),
        "PATH": f"{ROOT}/bin:+",
        "LD_LIBRARY_PATH": f"{ROOT}/lib64:+",
        "-DCUDA_TOOLKIT_ROOT_DIR": ROOT,
        "-DCUDAToolkit_ROOT": ROOT,
    }


# --- the host compiler


def test_a_compiler_in_a_folder_with_a_blank_is_quoted_for_setuptools(legacy_plan: Planner) -> None:
    path = "/home/me/my tools/gcc"
    host = replace(LINUX, compilers=(Compiler("c", "gcc", path, "12.2.0", "gcc"),))
    asked = legacy_plan({"target": "cpu", "package-version": "2.6.0"}, environment={"CC": path}, host=host)
    assert variables(asked)["CC"] == f"'{path}'"
    assert ids(asked) == []
    command = legacy_plan({"target": "cpu"}, environment={"CC": "ccache gcc"}, host=host)
    assert variables(command)["CC"] == "ccache gcc"
