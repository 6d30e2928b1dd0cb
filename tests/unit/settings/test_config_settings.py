from __future__ import annotations

import importlib.resources
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from said import said
from settings.loading import Load, Refuse, rendered
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.settings.config_settings import Where, keys_for, read_passthrough


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
    with pytest.raises(TorchwheelError) as caught:
        load(config={"cmake.args": value})
    assert [(problem.id, problem.origin) for problem in caught.value.problems] == [
        ("ill-typed-value", "-C cmake.args")
    ]


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
    with pytest.raises(TorchwheelError) as caught:
        load(config={name: value})
    assert str(caught.value) == said(
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
    known = {*read_passthrough().names, *read_passthrough().renamed}
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
    ("config", "message"),
    [
        (
            {"taget": "rtx5070"},
            said("unknown-setting", "-C taget", "-C target=rtx5070"),
        ),
        (
            {"build.verbos": "1"},
            said("unknown-setting", "-C build.verbose=1"),
        ),
        (
            {"defin.USE_X": "1"},
            said("unknown-setting", "-C defin.USE_X", "-C define.USE_X=1"),
        ),
        (
            {"torchwheel.target": "cpu"},
            said("unknown-setting", "-C torchwheel.target", "-C target=cpu"),
        ),
        (
            {"source": "../pytorch"},
            said("unknown-setting", "-C source", ", ".join(keys_for(Where.COMMAND))),
        ),
        (
            {"define": "USE_FOO=ON"},
            said("malformed-name", "-C define", "USE_FOO=ON"),
        ),
        (
            {"env": "x"},
            said("malformed-name", "-C env", "CFLAGS=-O2"),
        ),
        (
            {"define.A B": "1"},
            said("malformed-name", "-C define.A B", "a CMake option", "-C define.USE_NATIVE_ARCH=true"),
        ),
        (
            {"disable": "USE_NCCL"},
            said("unknown-component", "-C disable", "USE_NCCL", "nccl"),
        ),
        (
            {"enable": "USE_FOO"},
            said("unknown-component", "-C enable", "-C define.USE_FOO=true"),
        ),
        (
            {"enable": "nccl,ncll"},
            said("unknown-component", "-C enable", "ncll", "nccl"),
        ),
    ],
)
def test_mistakes(refuse: Refuse, config: dict[str, Any], message: str) -> None:
    assert rendered(refuse(config=config)) == [message]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"enable": "nccl", "disable": "nccl"},
            said("contradiction", "-C enable and -C disable", "enable names nccl", "disable names nccl"),
        ),
        (
            {"enable": "nccl", "define.USE_NCCL": "OFF"},
            said(
                "contradiction",
                "-C enable and -C define.USE_NCCL … enable names nccl … define.USE_NCCL is OFF",
            ),
        ),
        (
            {"build-type": "Debug", "cmake.define.CMAKE_BUILD_TYPE": "Release"},
            said(
                "contradiction",
                "-C build-type and -C cmake.define.CMAKE_BUILD_TYPE … build-type is Debug",
                "build-type is Release",
            ),
        ),
        (
            {"wheel.exclude": "a", "skbuild.wheel.exclude": "b"},
            said("contradiction", "-C skbuild.wheel.exclude", "wheel.exclude is a", "wheel.exclude is b"),
        ),
    ],
)
def test_contradictions(refuse: Refuse, config: dict[str, Any], message: str) -> None:
    assert rendered(refuse(config=config)) == [message]


def test_saying_the_same_twice_is_no_contradiction(load: Load) -> None:
    settings = load(config={"enable": "gloo", "define.USE_GLOO": "1"})
    assert settings.entries["define.USE_GLOO"].value is True


def test_every_setting_has_a_variable(load: Load) -> None:
    settings = load(
        environment={
            "TORCHWHEEL_TARGET": "rtx5070",
            "TORCHWHEEL_PROFILE": "minimal",
            "TORCHWHEEL_ARCH": "12.0a",
            "TORCHWHEEL_CUDA": ">=12.8,<13",
            "TORCHWHEEL_CUDA_PATH": "/opt/cuda 12.9",
            "TORCHWHEEL_ENABLE": "gloo,distributed",
            "TORCHWHEEL_DISABLE": "numpy",
            "TORCHWHEEL_DEFINE": "USE_FOO=ON 'FLAGS=-O2 -g'",
            "TORCHWHEEL_ENV": "CC=clang",
            "TORCHWHEEL_JOBS": "3",
            "TORCHWHEEL_PACKAGE_VERSION": "2.6.0",
            "TORCHWHEEL_LOCAL_VERSION": "mine",
            "TORCHWHEEL_BUILD_TYPE": "Debug",
            "TORCHWHEEL_BUILD_DIR": "/b",
            "TORCHWHEEL_BUILD_ENV": "current",
            "TORCHWHEEL_SKIP_CHECK": "a,b",
            "TORCHWHEEL_TRACEBACK": "1",
            "TORCHWHEEL_CACHE_DIR": "/cache",
            "TORCHWHEEL_CONFIG_DIR": "/config",
        }
    )
    assert (settings.target, settings.profile, str(settings.arch)) == (("rtx5070",), ("minimal",), "12.0a")
    assert (str(settings.cuda), settings.cuda_path) == (">=12.8,<13", "/opt/cuda 12.9")
    assert (settings.define["USE_GLOO"], settings.define["USE_NUMPY"]) == (True, False)
    assert (settings.define["USE_FOO"], settings.define["FLAGS"]) == ("ON", "-O2 -g")
    assert (dict(settings.env), settings.jobs, settings.package_version) == ({"CC": "clang"}, 3, "2.6.0")
    assert (settings.local_version, settings.build_type, settings.build_dir) == ("mine", "Debug", "/b")
    assert (settings.build_env, settings.skip_check, settings.traceback) == ("current", ("a", "b"), True)
    assert {item.layer.title for key, item in settings.entries.items() if key in ("jobs", "target")} == {
        "environment"
    }


def test_unknown_and_malformed_variables(refuse: Refuse) -> None:
    environment = {
        "TORCHWHEEL_TARGTE": "rtx5070",
        "TORCHWHEEL_BANANA": "1",
        "TORCHWHEEL_DEFINE": "USE_FOO",
        "TORCHWHEEL_ENV": "'A=b",
        "TORCHWHEEL_JOBS": "x",
        "TORCHWHEEL_EMPTY": "",
    }
    assert rendered(refuse(environment=environment)) == [
        said(
            "unknown-variable",
            "variable TORCHWHEEL_BANANA",
            *(key.variable for key in keys_for(Where.COMMAND).values()),
        ),
        said(
            "malformed-variable",
            "variable TORCHWHEEL_DEFINE … USE_FOO … it has no = … TORCHWHEEL_DEFINE=USE_NATIVE_ARCH=true",
        ),
        said(
            "malformed-variable",
            "variable TORCHWHEEL_ENV … 'A=b … No closing quotation … TORCHWHEEL_ENV=CFLAGS=-O2",
        ),
        said("unknown-variable", "variable TORCHWHEEL_TARGTE", "TORCHWHEEL_TARGET", "rtx5070"),
        said(
            "ill-typed-value",
            "variable TORCHWHEEL_JOBS … jobs",
            '"x"',
            "a whole number from 1 to 1,024 … TORCHWHEEL_JOBS=8",
        ),
    ]


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
