"""Relative paths: those in files are the project's, those from outside are where the caller stands."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from torchwheel.host.machine import Host
from torchwheel.settings import load_settings
from torchwheel.settings.value_types import resolve_value


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The project, and where the caller stands."""
    project, here = tmp_path / "projekt ü", tmp_path / "here"
    for folder in (project, here):
        folder.mkdir()
    monkeypatch.chdir(here)
    return project, here


@pytest.mark.parametrize("key", ["cuda-path", "build-dir"])
def test_every_source_of_a_path(folders: tuple[Path, Path], linux: Host, key: str) -> None:
    project, here = folders
    (project / "pyproject.toml").write_text(f"[tool.torchwheel]\n{key} = 'a b'\n", "utf-8")
    variable = f"TORCHWHEEL_{key.upper().replace('-', '_')}"
    found = [
        load_settings(project, config, environment, linux, project, working_folder=folder).entries[key].value
        for config, environment, folder in [
            ({}, {}, Path()),
            ({key: "a b"}, {}, Path()),
            ({}, {variable: "a b"}, Path()),
            # CMake calls torchwheel for a project in a folder of its own.
            ({key: "a b"}, {}, project),
        ]
    ]
    assert found == [str(folder / "a b") for folder in (project, here, here, project)]


@pytest.mark.parametrize(
    ("config", "environment"),
    [
        ({}, {"CUDA_HOME": "../cuda"}),
        ({}, {"CMAKE_ARGS": "-DCUDAToolkit_ROOT=../cuda"}),
        ({"define.CUDA_TOOLKIT_ROOT_DIR": "../cuda"}, {}),
    ],
)
def test_pytorchs_names_of_the_toolkit(
    folders: tuple[Path, Path], linux: Host, config: dict[str, str], environment: dict[str, str]
) -> None:
    project, here = folders
    assert load_settings(project, config, environment, linux, project).cuda_path == str(here / "../cuda")


def test_variables_and_options_of_the_project_are_relative_to_it(
    folders: tuple[Path, Path], linux: Host
) -> None:
    project, here = folders
    (project / "pyproject.toml").write_text("[tool.torchwheel.env]\nCC = './cc'\n", "utf-8")
    settings = load_settings(project, {"define.CMAKE_CXX_COMPILER": "./c++"}, {}, linux, project)
    assert (settings.env["CC"], settings.define["CMAKE_CXX_COMPILER"]) == (
        f"'{project}/cc'",
        str(here / "c++"),
    )


@pytest.mark.parametrize("name", ["CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "NVCC_CCBIN"])
def test_the_program_of_a_variable(tmp_path: Path, name: str) -> None:
    (tmp_path / "a b").touch()
    (tmp_path / "link").symlink_to("a b")
    texts = [
        "gcc",
        "gcc -m64",
        "/opt/gcc -m64",
        "bin/gcc",
        "./link",
        "./a b",
        "bin/gcc -m64",
        "ccache ./gcc -O2",
    ]
    here = str(tmp_path)
    assert [resolve_value("env", name, text, tmp_path) for text in texts] == [
        "gcc",
        "gcc -m64",
        "/opt/gcc -m64",
        shlex.quote(f"{here}/bin/gcc"),
        f"{here}/link",
        f"{here}/a b",
        f"{shlex.quote(here + '/bin/gcc')} -m64",
        f"ccache {shlex.quote(here + '/gcc')} -O2",
    ]


def test_the_values_of_options(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    there = str(tmp_path / "there")
    values = {
        ("define", "CMAKE_CUDA_COMPILER", "a b/nvcc"): f"{tmp_path}/a b/nvcc",
        ("define", "CMAKE_CXX_COMPILER", "g++"): "g++",
        ("define", "CMAKE_TOOLCHAIN_FILE", "there"): there,
        # What is not there may be the tree's.
        ("define", "CMAKE_TOOLCHAIN_FILE", "cmake/arm.cmake"): "cmake/arm.cmake",
        ("env", "NCCL_ROOT", "./there"): there,
        ("env", "CPATH", "there::/usr/include"): f"{there}::/usr/include",
        ("define", "CMAKE_PREFIX_PATH", "there;absent"): f"{there};absent",
        ("define", "USE_NCCL", "there"): "there",
        ("define", "NCCL_ROOT", ""): "",
    }
    assert {key: resolve_value(*key, tmp_path) for key in values} == values
