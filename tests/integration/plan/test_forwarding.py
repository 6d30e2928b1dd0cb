"""Every option reaches CMake, and in one way, whatever the generation and whatever the value."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plan.planning import WINDOWS, Planner, finding, options, rendered, toolkit, variables
from said import said
from shipped_data import PACKAGE
from torchwheel.engine.configuring import read_cmake_cache, read_cmake_values
from torchwheel.plan.build_plan import REPORT, Plan
from torchwheel.plan.defines import cmake_file, environment_text, forwarding_rules
from torchwheel.tree.source_tree import Generation

CUDA_ROOT = "/opt/cuda-12.9"
LINK_INPUTS = (PACKAGE / "plan" / "link_inputs.cmake").read_text(encoding="utf-8")
TRICKY = {
    "LIST": "8.0;9.0+PTX",
    "SPACES": " leading and trailing ",
    "QUOTES": "say \"hello\" and 'bye'",
    "UNICODE": "Grüße 你好",
    "BACKSLASH": r"C:\Program Files\NVIDIA\n",
    "REFERENCE": "${PATH} @PATH@ $ENV{HOME}",
    "PARENTHESES": "#not) a (comment",
    "BRACKET": "[=[ ]] ]=] ]==]",
    "BRACKET_AT_THE_END": "ends in ]=",
    "HALF_A_BRACKET": "]",
    "EMPTY": "",
}
ASKED = {f"define.{name}": value for name, value in TRICKY.items()}
MIXED = {
    "target": "rtx5070",
    "package-version": "2.14.1",
    "cuda-path": CUDA_ROOT,
    "disable": "nccl",
    "define.BLAS": "OpenBLAS",
    "define.CMAKE_CXX_FLAGS": "-O2 -g",
    "build-type": "RelWithDebInfo",
    **ASKED,
}


def mixed(plan: Planner) -> Plan:
    return plan(MIXED, named=toolkit("12.9", CUDA_ROOT))


@pytest.mark.parametrize("generation", Generation)
def test_the_environment_decides_options_of_these_names(generation: Generation) -> None:
    """They beat -D and the cache there: cmake/EnvVarForwarding.cmake, tools/setup_helpers/cmake.py."""
    ways = forwarding_rules(generation)
    forwarded = ("BUILD_X", "USE_X", "CMAKE_X", "HAS_X_EXITCODE", "HAS_X_EXITCODE__TRYRUN_OUTPUT")
    assert [ways.by_environment(name) for name in forwarded] == [True] * 5
    assert [ways.by_environment(name) for name in ("XUSE_", "X_EXITCODES", "TORCH_X")] == [False] * 3


def test_an_option_that_the_environment_decides_is_set_in_both_places(plan: Planner) -> None:
    names = ("CMAKE_X", "HAS_X_EXITCODE")
    made = plan(MIXED | {f"define.{name}": "7" for name in names}, named=toolkit("12.9", CUDA_ROOT))
    for name in names:
        assert (options(made)[name], variables(made)[name]) == ("7", "7")


def test_scikit_build_core_gets_every_option_as_a_config_setting(plan: Planner) -> None:
    made = mixed(plan)
    given_options = {
        key.removeprefix("cmake.define."): value
        for key, value in made.inner_config_settings.items()
        if key.startswith("cmake.define.")
    }
    # These two scikit-build-core passes by itself, from cmake.build-type and from the interpreter that it runs in.
    by_itself = {"CMAKE_BUILD_TYPE", "Python_EXECUTABLE"}
    # torchwheel's own file, with the launcher.
    assert given_options.pop("CMAKE_PROJECT_INCLUDE_BEFORE") == str(made.folders.defines_file)
    assert given_options == {name: value for name, value in options(made).items() if name not in by_itself}
    assert made.inner_config_settings["cmake.build-type"] == "RelWithDebInfo"
    assert made.inner_config_settings["build-dir"] == str(made.folders.build)
    assert made.file_options == frozenset()
    assert "CMAKE_PROJECT_INCLUDE_BEFORE" not in variables(made)


def test_setup_py_gets_every_option_by_variable_or_file_and_never_by_both(legacy_plan: Planner) -> None:
    made = mixed(legacy_plan)
    environment, asked = variables(made), options(made)
    by_variable = {name for name in asked if name in environment and name != "CUDAToolkit_ROOT"}
    assert by_variable == {
        "BLAS",
        "CMAKE_BUILD_TYPE",
        "CMAKE_CUDA_COMPILER",
        "CMAKE_CXX_FLAGS",
        "TORCH_CUDA_ARCH_LIST",
        "USE_CUDA",
        "USE_NCCL",
    }
    # CUDAToolkit_ROOT is a variable as well, for CMake's FindCUDAToolkit; setup.py does not make an option of it.
    assert made.file_options == set(TRICKY) | {"CUDAToolkit_ROOT", "CUDA_TOOLKIT_ROOT_DIR"}
    assert by_variable | made.file_options | {"Python_EXECUTABLE"} == set(asked)
    assert {name: environment[name] for name in by_variable} == {
        name: environment_text(asked[name]) for name in by_variable
    }
    assert environment["CMAKE_PROJECT_INCLUDE_BEFORE"] == str(made.folders.defines_file)
    assert made.inner_config_settings == {}


def test_setup_py_gets_a_file_without_such_options_too(legacy_plan: Planner) -> None:
    plain = legacy_plan({"target": "cpu", "package-version": "2.6.0"})
    assert (plain.file_options, plain.launches_compilers) == (frozenset(), True)
    windows = legacy_plan({"target": "cpu", "package-version": "2.6.0"}, host=WINDOWS)
    assert not windows.launches_compilers
    for made in (plain, windows):
        assert variables(made)["CMAKE_PROJECT_INCLUDE_BEFORE"] == str(made.folders.defines_file)


def test_the_launcher_stands_in_front_of_compilers_and_linkers() -> None:
    command = ("/usr/bin/python3", "-I", "-S", "/a b/memory_launcher.py", "/a b/memory_launcher.json")
    quoted = "/usr/bin/python3 -I -S '/a b/memory_launcher.py' '/a b/memory_launcher.json'"
    assert cmake_file({}, launcher=command).splitlines() == [
        "include_guard(GLOBAL)",
        f"set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE [[{quoted}]])",
        f"set_property(GLOBAL PROPERTY RULE_LAUNCH_LINK [[{quoted}]])",
        *LINK_INPUTS.splitlines(),
    ]


def test_a_file_of_the_user_s_own_is_not_expected_in_the_cache(legacy_plan: Planner) -> None:
    """torchwheel needs the variable for itself, and includes the user's file first."""
    both = legacy_plan(
        {
            "target": "cpu",
            "package-version": "2.6.0",
            "define.CMAKE_PROJECT_INCLUDE_BEFORE": "/mine.cmake",
            "define.SPECIAL": "1",
        }
    )
    (theirs,) = (d for d in both.defines if d.name == "CMAKE_PROJECT_INCLUDE_BEFORE")
    assert (theirs.value, theirs.expected) == ("/mine.cmake", False)
    assert variables(both)["CMAKE_PROJECT_INCLUDE_BEFORE"] == str(both.folders.defines_file)


def test_a_value_that_scikit_build_core_would_cut_short_is_an_error(
    plan: Planner, legacy_plan: Planner
) -> None:
    cut = {"target": "cpu", "package-version": "2.14.1", "define.BLAS": "a]===]b"}
    assert rendered(plan(cut).findings) == [said("error: value-not-forwarded", "-C define.BLAS", "]===]")]
    assert finding(plan(cut | {"define.BLAS": "a]==="}), "value-not-forwarded")
    assert legacy_plan(cut).errors == ()


def test_arguments_for_cmake_itself(plan: Planner) -> None:
    """Of contradicting arguments CMake takes the last, so -C stands behind the environment."""
    both = plan(
        {"target": "cpu", "cmake.args": "-GXcode;--fresh", "skbuild.wheel.build-tag": "7"},
        environment={"CMAKE_ARGS": "-G 'Unix Makefiles' -Wno-dev"},
    )
    assert both.inner_config_settings["cmake.args"] == [
        "-G",
        "Unix Makefiles",
        "-Wno-dev",
        "-GXcode",
        "--fresh",
    ]
    assert both.inner_config_settings["wheel.build-tag"] == "7"


# --- the file, read by CMake itself


def configure(folder: Path, text: str, lists: str = "project(x NONE)\n") -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "torchwheel-defines.cmake"
    file.write_text(text, encoding="utf-8")
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.18)\n{lists}", encoding="utf-8")
    build = folder / "build"
    command = ["cmake", "-S", folder, "-B", build, "-GNinja", f"-DCMAKE_PROJECT_INCLUDE_BEFORE={file}"]
    subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return read_cmake_cache(build / "CMakeCache.txt")


def test_cmake_reads_back_every_value(tmp_path: Path) -> None:
    cache = configure(tmp_path / "ordner mit ü", cmake_file(TRICKY))
    assert {name: cache[name] for name in TRICKY} == TRICKY


def test_the_whole_file() -> None:
    assert cmake_file({"B": "x]]y", "A": "8.0;9.0"}, "C:/theirs ü.cmake") == (
        "include([[C:/theirs ü.cmake]])\n"
        "include_guard(GLOBAL)\n"
        'set(A [[8.0;9.0]] CACHE STRING "" FORCE)\n'
        'set(B [=[x]]y]=] CACHE STRING "" FORCE)\n' + LINK_INPUTS
    )


def test_cmake_writes_what_every_option_is_in_the_end(tmp_path: Path) -> None:
    """Also after the tree's own deferred calls, and with every character."""
    lists = """project(x NONE)
option(USE_A "" ON)
set(USE_A OFF)
option(USE_B "" ON)
cmake_language(DEFER CALL set USE_B OFF)
function(set_here)
  set(USE_C OFF)
endfunction()
option(USE_C "" ON)
set_here()
add_subdirectory(below)
set(LINES "one
two")
"""
    below = tmp_path / "tree" / "below"
    below.mkdir(parents=True)
    (below / "CMakeLists.txt").write_text("project(below NONE)\nset(USE_C OFF)\n", encoding="utf-8")
    names = {*TRICKY, "USE_A", "USE_B", "USE_C", "USE_D", "LINES"}
    cache = configure(tmp_path / "tree", cmake_file(TRICKY, reported=names), lists)
    assert (cache["USE_A"], cache["USE_B"]) == ("ON", "ON")
    others = {"USE_A": "OFF", "USE_B": "OFF", "USE_C": "ON", "USE_D": "", "LINES": "one\ntwo"}
    assert read_cmake_values(tmp_path / "tree" / "build" / REPORT) == TRICKY | others


def test_what_the_tree_makes_of_an_option_stays(tmp_path: Path) -> None:
    """As with -D: a second project() in the tree must not set the option again. A file of the user's is
    included at each of them, as CMake does without torchwheel."""
    theirs = tmp_path / "theirs.cmake"
    theirs.write_text('math(EXPR n "0${COUNT} + 1")\nset(COUNT ${n} CACHE STRING "" FORCE)\n')
    lists = 'project(x NONE)\nset(USE_A OFF CACHE BOOL "" FORCE)\nproject(y NONE)\n'
    cache = configure(tmp_path / "tree", cmake_file({"USE_A": "ON", "B": "b"}, str(theirs)), lists)
    assert (cache["USE_A"], cache["B"], cache["COUNT"]) == ("OFF", "b", "2")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.text(
            st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029")
            | st.sampled_from('[]=\\"$;')
        ),
        min_size=8,
        max_size=8,
    )
)
def test_no_text_on_one_line_is_changed(tmp_path: Path, values: list[str]) -> None:
    named = {f"OPTION_{number}": value for number, value in enumerate(values)}
    script = tmp_path / "check.cmake"
    shown = "".join(f'file(APPEND "{tmp_path}/out" "${{OPTION_{n}}}\\n")\n' for n in range(len(values)))
    # What lists the linker's inputs runs in projects alone.
    only_values = cmake_file(named).removesuffix(LINK_INPUTS)
    script.write_text(only_values + shown, encoding="utf-8")
    (tmp_path / "out").write_bytes(b"")
    subprocess.run(["cmake", "-P", script], check=True, capture_output=True)
    assert (tmp_path / "out").read_text(encoding="utf-8").split("\n") == [*values, ""]
