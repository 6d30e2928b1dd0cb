from __future__ import annotations

import importlib.resources
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from refusals import error_of, origins_of
from said import said
from settings.loading import Load, Refuse
from torchwheel.settings import Layer
from torchwheel.settings.config_settings import Key, Where, keys_for, read_passthrough


def test_every_form_that_frontends_give(load: Load) -> None:
    settings = load(
        config={
            "target": ["a100", "t4"],
            "disable": "gloo, mpi",
            "define.USE_FOO": "ON",
            "define.USE_BAR": True,
            "cmake.define.BLAZE": "a;b \"c\" 'd' ü",
            "skbuild.cmake.define.NAME": ["x"],
            "env.CFLAGS": "-O2",
            "jobs": "3",
            "cuda": "12.9",
            "cmake.build-type": "debug",
            "traceback": True,
            "profile": "",
        }
    )
    assert settings.target == ("a100", "t4")
    assert settings.disable == ("gloo", "mpi")
    given = {name: item.value for name, item in settings.defines.items() if item.layer.title == "-C"}
    assert given == {
        "USE_GLOO": False,
        "USE_MPI": False,
        "USE_FOO": "ON",
        "USE_BAR": True,
        "BLAZE": "a;b \"c\" 'd' ü",
        "NAME": "x",
        "USE_CUDA": True,
    }
    assert settings.env["CFLAGS"] == "-O2"
    assert (settings.jobs, str(settings.cuda), settings.build_type) == (3, "==12.9.*", "Debug")
    assert (settings.traceback, settings.profile) == (True, ())
    assert settings.entries["define.BLAZE"].origin == "-C cmake.define.BLAZE"


def test_the_backends_own_settings_are_handed_on_unread(load: Load) -> None:
    given: dict[str, Any] = {
        "cmake.args": ["-G", "Ninja"],
        "skbuild.wheel.py-api": "cp310",
        "wheel.force-include.a/b": "c",
        "strict-config": "false",
        "--build-option": "--quiet",
        "experimental": True,
    }
    settings = load(config=given)
    assert settings.passthrough == {key.removeprefix("skbuild."): value for key, value in given.items()}
    assert [key for key, item in settings.entries.items() if item.layer.title == "-C"] == []


@pytest.mark.parametrize("value", ["nul\0", ["a", "nul\0"], "no UTF-8: \udcff"])
def test_what_is_handed_on_can_be_used(load: Load, value: str | list[str]) -> None:
    assert origins_of(load, config={"cmake.args": value}) == [("ill-typed-value", "-C cmake.args")]


@pytest.mark.parametrize("name", ["cmake.args", "skbuild.cmake.args"])
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("foo", "has foo, which is no argument of CMake's configuring"),
        ("-GNinja;--version", "has --version, which is no argument of CMake's configuring"),
        (["-G", "Ninja", "-S", "/elsewhere"], "has -S, which is no argument of CMake's configuring"),
        ("-DUSE_NCCL;-Wno-dev", "has -DUSE_NCCL without a value"),
    ],
)
def test_cmake_arguments_that_are_none_are_refused(
    load: Load, name: str, value: str | list[str], fault: str
) -> None:
    """CMake takes a word for a folder, passes it over, and the build went on; of --version it configured nothing."""
    assert str(error_of(load, config={name: value})) == said(
        "malformed-cmake-args",
        f"-C {name}",
        fault,
        "write arguments of CMake with semicolons between them: -C 'cmake.args=-DUSE_NCCL=OFF;-Wno-dev'",
    )


def test_cmake_arguments_may_end_in_a_semicolon(load: Load) -> None:
    assert load(config={"cmake.args": "-Wno-dev;"}).passthrough == {"cmake.args": "-Wno-dev;"}


@pytest.mark.parametrize("prefix", ["", "skbuild."])
@pytest.mark.parametrize("name", read_passthrough().renamed)
def test_what_scikit_build_core_rejects_is_refused_with_its_successor(
    prefix: str, name: str, refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (problem,) = refuse(config={f"{prefix}{name}": "3.27"})
    successor = read_passthrough().renamed[name].format("3.27")
    assert (problem.id, successor in problem.remedy) == ("unknown-setting", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n', encoding="utf-8")
    with pytest.raises(SystemExit):
        importlib.import_module("scikit_build_core.build").build_wheel(str(tmp_path), {name: "3.27"})


def test_scikit_build_cores_keys_are_all_known() -> None:
    file = importlib.resources.files("scikit_build_core") / "resources" / "scikit-build.schema.json"
    # Keys that only pyproject.toml can have, and those that are torchwheel's own settings.
    elsewhere = {"overrides", "config-setting", "cmake.define", "cmake.build-type", "build-dir", "env"}
    leaves = set(_leaves(json.loads(file.read_text(encoding="utf-8")))) - elsewhere
    known = {*read_passthrough().backends, *read_passthrough().renamed}
    assert {leaf for leaf in leaves if leaf not in known and f"{leaf}.*" not in known} == set()
    # What the schema cannot say: variants are set with -C alone; ``fail`` and ``generate`` take other forms.
    beyond = {"variant", "variant-name", "variant-label", "null-variant", "fail", "editable_mode"}
    extra = {name.removesuffix(".*") for name in known if not name.startswith("--")} - leaves
    assert extra == beyond


def _leaves(schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in schema.get("properties", {}).items():
        inner = value.get("properties")
        if inner and name != "metadata":
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@pytest.mark.parametrize(
    ("config", "id", "said"),
    [
        ({"taget": "rtx5070"}, "unknown-setting", "-C target=rtx5070"),
        ({"build.verbos": "1"}, "unknown-setting", "-C build.verbose=1"),
        ({"defin.USE_X": "1"}, "unknown-setting", "-C define.USE_X=1"),
        ({"torchwheel.target": "cpu"}, "unknown-setting", "-C target=cpu"),
        ({"source": "../pytorch"}, "unknown-setting", ", ".join(keys_for(Where.COMMAND))),
        ({"define": "USE_FOO=ON"}, "malformed-name", "USE_FOO=ON"),
        ({"env": "x"}, "malformed-name", "CFLAGS=-O2"),
        ({"define.A B": "1"}, "malformed-name", "-C define.USE_NATIVE_ARCH=true"),
        ({"disable": "USE_NCCL"}, "unknown-component", "nccl"),
        ({"enable": "USE_FOO"}, "unknown-component", "-C define.USE_FOO=true"),
        ({"enable": "nccl,ncll"}, "unknown-component", "nccl"),
        ({"enable": "nccl", "disable": "nccl"}, "contradiction", "disable names nccl"),
        ({"enable": "nccl", "define.USE_NCCL": "OFF"}, "contradiction", "define.USE_NCCL is OFF"),
        (
            {"build-type": "Debug", "cmake.define.CMAKE_BUILD_TYPE": "Release"},
            "contradiction",
            "build-type is Release",
        ),
        ({"wheel.exclude": "a", "skbuild.wheel.exclude": "b"}, "contradiction", "wheel.exclude is b"),
    ],
)
def test_mistakes(refuse: Refuse, config: dict[str, Any], id: str, said: str) -> None:
    (problem,) = refuse(config=config)
    assert problem.id == id
    assert f"-C {list(config)[-1]}" in problem.origin
    assert said in problem.render()


def test_saying_the_same_twice_is_no_contradiction(load: Load) -> None:
    settings = load(config={"enable": "gloo", "define.USE_GLOO": "1"})
    assert settings.entries["define.USE_GLOO"].value is True


@pytest.mark.parametrize("key", keys_for(Where.COMMAND).values(), ids=lambda key: key.name)
def test_every_setting_has_a_variable(load: Load, key: Key) -> None:
    settings = load(environment={key.variable: key.example, "TORCHWHEEL_CACHE_DIR": "/cache"})
    origins = {item.origin for item in settings.entries.values() if item.layer is Layer.ENVIRONMENT}
    assert f"variable {key.variable}" in "".join(origins)


def test_unknown_and_malformed_variables(refuse: Refuse) -> None:
    environment = {
        "TORCHWHEEL_TARGTE": "rtx5070",
        "TORCHWHEEL_BANANA": "1",
        "TORCHWHEEL_DEFINE": "USE_FOO",
        "TORCHWHEEL_ENV": "'A=b",
        "TORCHWHEEL_JOBS": "x",
        "TORCHWHEEL_EMPTY": "",
    }
    problems = refuse(environment=environment)
    assert [(one.id, one.origin) for one in problems] == [
        ("unknown-variable", "variable TORCHWHEEL_BANANA"),
        ("malformed-variable", "variable TORCHWHEEL_DEFINE"),
        ("malformed-variable", "variable TORCHWHEEL_ENV"),
        ("unknown-variable", "variable TORCHWHEEL_TARGTE"),
        ("ill-typed-value", "variable TORCHWHEEL_JOBS"),
    ]
    assert "TORCHWHEEL_TARGET" in problems[3].remedy


def test_a_variable_that_reads_as_torchwheels_own_version(refuse: Refuse, load: Load) -> None:
    asked = refuse(environment={"TORCHWHEEL_VERSION": "0.1.0"}, config={"version": "0.1.0"})[::-1]
    assert [problem.id for problem in asked] == ["unknown-variable", "unknown-setting"]
    for problem, meant in zip(asked, ("TORCHWHEEL_PACKAGE_VERSION=", "-C package-version="), strict=True):
        assert f"{meant}0.1.0" in problem.remedy
    (written,) = refuse(pyproject='[tool.torchwheel]\nversion = "0.1.0"\n')
    assert "package-version" in written.remedy
    # What belongs to the tests here is nothing to a build.
    assert load(environment={"TEST_TORCHWHEEL_TORCH": "/python"}).package_version is None


@pytest.mark.parametrize("path", ["/opt/cuda", r"C:\CUDA\v12.9", "//server/cuda"])
def test_absolute_paths_of_any_platform_stay(load: Load, path: str) -> None:
    assert load(config={"cuda-path": path}).cuda_path == path


def test_a_home_folder_is_expanded(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("USERPROFILE" if sys.platform == "win32" else "HOME", str(tmp_path))
    assert load(config={"build-dir": "~/build"}).build_dir == str(tmp_path) + "/build"
