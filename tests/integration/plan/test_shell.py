"""The plan as a command line: a shell runs it, and CMake then holds what was planned."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from plan.planning import LINUX, Planner
from torchwheel.engine.configuring import find_differences, read_cmake_cache
from torchwheel.host.described import described_host
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.shell import render_shell, shell_folders
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.toolkit.discover import discover_toolkits

posix_only = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
HERE = replace(LINUX, python=replace(LINUX.python, executable=sys.executable))


def run(plan: Plan, script: str, folder: Path) -> dict[str, str]:
    """Run a script in a shell that knows nothing of the developer's settings; the CMake cache it makes."""
    file = folder / "plan.sh"
    file.write_text(script, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        ["sh", "-eu", file], env=environment, cwd=folder, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return read_cmake_cache(shell_folders(plan).cmake_cache)


@posix_only
@pytest.mark.parametrize("planner", ["plan", "legacy_plan"])
def test_cmake_takes_what_was_planned(planner: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    plan = request.getfixturevalue(planner)(
        {
            "target": "cpu",
            "package-version": "2.14.1",
            "profile": "minimal",
            "build-type": "Debug",
            "define.CMAKE_CXX_FLAGS": '-g0 -DSAY="it\'s"',
            "define.SELECTED_OP_LIST": "a;b $HOME ü",
            "define.NOT_FORWARDED": '`x` \\ "y"',
            "env.LD_LIBRARY_PATH": "/nowhere/a b",
        },
        host=HERE,
    )
    cache = run(plan, render_shell(plan), tmp_path)
    assert find_differences(plan.defines, cache) == ()
    assert {name: cache[name] for name in ("SELECTED_OP_LIST", "NOT_FORWARDED", "CMAKE_CXX_FLAGS")} == {
        "SELECTED_OP_LIST": "a;b $HOME ü",
        "NOT_FORWARDED": '`x` \\ "y"',
        "CMAKE_CXX_FLAGS": '-g0 -DSAY="it\'s"',
    }
    assert cache["CMAKE_GENERATOR"] == "Ninja"
    assert cache["TORCH_BUILD_VERSION"] == "2.14.1+cpu.minimal.debug"


@posix_only
@pytest.mark.nvcc
@pytest.mark.skipif(not discover_toolkits(os.environ), reason="no CUDA toolkit with nvcc on this machine")
def test_cmake_takes_the_planned_cuda(plan: Planner, tmp_path: Path) -> None:
    (first, *_) = discover_toolkits(os.environ)
    cuda = plan(
        {"arch": "9.0", "package-version": "2.14.1", "disable": "nccl,cudnn"},
        host=replace(HERE, here=True),
        toolkits=[first],
    )
    assert cuda.errors == ()
    cache = run(cuda, render_shell(cuda), tmp_path)
    # minitorch switches off what it has no kernels for, as PyTorch does; everything else is as planned.
    assert [d.define.name for d in find_differences(cuda.defines, cache)] == []
    assert Path(cache["CMAKE_CUDA_COMPILER"]) == Path(str(first.nvcc))


def test_the_whole_text_for_windows(plan: Planner) -> None:
    windows = described_host(
        "win_amd64", python_version="3.11.9", python_executable=r"C:\My venv\Scripts\python.exe"
    )
    plan = replace(plan, tree=replace(plan.tree, root=Path("/pytorch")), cache=Path("/cache"))
    made = plan(
        {
            "target": "cpu",
            "package-version": "2.14.1",
            "define.BLAS": "a;b",
            "define.CMAKE_CXX_FLAGS": '/DSAY="100%" /D X\\',
        },
        host=windows,
    )
    root = made.folders.root.with_name(f"{made.folders.root.name}-shell")
    assert render_shell(made).splitlines() == [
        "setlocal",
        f"rem delete {root} to copy the source anew",
        f"if not exist {root}/source\\ xcopy /E /I /H /Q {made.tree.root} {root}/source\\",
        'set "BLAS=a;b"',
        'set "CMAKE_BUILD_PARALLEL_LEVEL=1"',
        'set "CMAKE_BUILD_TYPE=Release"',
        'set "CMAKE_CXX_FLAGS=/DSAY="100%%" /D X\\"',
        'set "MAX_JOBS=1"',
        'set "PYTORCH_BUILD_NUMBER=1"',
        'set "PYTORCH_BUILD_VERSION=2.14.1+cpu.blas"',
        'set "USE_CUDA=0"',
        'set "USE_CUDNN=0"',
        'set "USE_MPS=0"',
        'set "USE_ROCM=0"',
        'set "USE_XPU=0"',
        "cmake ^",
        "  -S ^",
        f"  {root / 'source'} ^",
        "  -B ^",
        f"  {root / 'build'} ^",
        "  -GNinja ^",
        '  "-DBLAS=a;b" ^',
        "  -DCMAKE_BUILD_TYPE=Release ^",
        '  "-DCMAKE_CXX_FLAGS=/DSAY=\\"100%%\\" /D X\\\\" ^',
        '  "-DPython_EXECUTABLE=C:\\My venv\\Scripts\\python.exe" ^',
        "  -DUSE_CUDA=OFF ^",
        "  -DUSE_CUDNN=OFF ^",
        "  -DUSE_MPS=OFF ^",
        "  -DUSE_ROCM=OFF ^",
        "  -DUSE_XPU=OFF",
        "endlocal",
    ]


def test_a_windows_search_path_keeps_what_was_there(plan: Planner) -> None:
    windows = described_host("win_amd64", python_version="3.11.9", python_executable="python.exe")
    made = plan({"target": "t4", "package-version": "2.14.1", "cuda-path": r"D:\CUDA\v13.0"}, host=windows)
    assert r'set "PATH=D:\CUDA\v13.0\bin;%PATH%"' in render_shell(made).splitlines()


def test_setup_py_s_own_options_are_there_and_its_file_is_not(legacy_plan: Planner) -> None:
    made = legacy_plan(
        {"target": "cpu", "package-version": "2.6.0", "define.NOT_FORWARDED": "1", "define.BUILD_TEST": "0"}
    )
    text = render_shell(made)
    assert "CMAKE_PROJECT_INCLUDE_BEFORE" not in text
    words = shlex.split(text.partition("cmake \\\n")[2].removesuffix(")"), posix=True)
    assert {word for word in words if word.startswith("-D")} == {
        f"-D{name}={value}"
        for name, value in {
            "BUILD_PYTHON": "ON",
            "BUILD_TEST": "0",
            "CMAKE_BUILD_TYPE": "Release",
            "CMAKE_INSTALL_PREFIX": f"{shell_folders(made).source}/torch",
            "NOT_FORWARDED": "1",
            "Python_EXECUTABLE": "/usr/bin/python3",
            "TORCH_BUILD_VERSION": "2.6.0+cpu",
            "USE_CUDA": "OFF",
            "USE_CUDNN": "OFF",
            "USE_MPS": "OFF",
            "USE_NUMPY": "ON",
            "USE_ROCM": "OFF",
            "USE_XPU": "OFF",
        }.items()
    }


@pytest.mark.parametrize(
    ("config", "environment", "generators"),
    [
        ({}, {}, ["-GNinja"]),
        ({"cmake.args": "-GXcode"}, {}, ["-GXcode"]),
        ({}, {"CMAKE_ARGS": "-G 'Unix Makefiles'"}, ["-G"]),
        ({"env.CMAKE_GENERATOR": "Unix Makefiles"}, {}, []),
    ],
)
def test_the_generator_is_ninja_unless_one_is_asked_for(
    plan: Planner, config: dict[str, str], environment: dict[str, str], generators: list[str]
) -> None:
    text = render_shell(
        plan({"target": "cpu", "package-version": "2.14.1", **config}, environment=environment)
    )
    assert [word for word in shlex.split(text) if word.startswith("-G")] == generators


@posix_only
def test_a_search_path_that_is_not_set_gets_no_empty_entry(plan: Planner) -> None:
    """An empty entry would be the current folder (environ(7))."""
    made = plan({"target": "t4", "package-version": "2.14.1"})
    (line,) = (line for line in render_shell(made).splitlines() if line.startswith("export LD_LIBRARY_PATH"))
    for there, expected in ((None, "/usr/local/cuda-13.0/lib64"), ("/a", "/usr/local/cuda-13.0/lib64:/a")):
        environment = {} if there is None else {"LD_LIBRARY_PATH": there}
        done = subprocess.run(
            ["/bin/sh", "-euc", f'{line}; printf %s "$LD_LIBRARY_PATH"'],
            env=environment,
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        assert done.stdout == expected


@posix_only
def test_the_checkout_is_not_written_to_and_the_shell_keeps_no_variable(
    plan: Planner, tmp_path: Path
) -> None:
    made = plan({"target": "cpu", "package-version": "2.14.1"}, host=HERE)
    before = {path: path.lstat().st_mtime_ns for path in made.tree.root.rglob("*")}
    run(made, render_shell(made) + '\n[ -z "${USE_CUDA:-}" ]\n', tmp_path)
    assert {path: path.lstat().st_mtime_ns for path in made.tree.root.rglob("*")} == before
    assert not made.folders.root.exists()


@pytest.mark.parametrize("name", ["A;touch x", "A B", "$(touch x)", "1A", "A-B", "\u00e4"])
def test_a_variable_that_is_no_identifier_is_an_error(plan: Planner, name: str) -> None:
    planned = plan({"target": "cpu"})
    planned = replace(planned, variables=(*planned.variables, replace(planned.variables[0], name=name)))
    with pytest.raises(TorchwheelError) as caught:
        render_shell(planned)
    assert [(one.id, one.origin) for one in caught.value.problems] == [
        ("unusable-variable-name", f"env.{name}")
    ]


@pytest.mark.parametrize("value", ['a" & calc & "', "a\nb", "a\rb"])
def test_a_batch_file_refuses_what_it_cannot_quote(plan: Planner, value: str) -> None:
    planned = plan({"target": "cpu"})
    windows = replace(planned, host=described_host("win_amd64"))
    assert "set " in render_shell(windows)
    odd = replace(
        windows, variables=(*windows.variables, replace(windows.variables[0], name="A", value=value))
    )
    with pytest.raises(TorchwheelError) as caught:
        render_shell(odd)
    assert [one.id for one in caught.value.problems] == ["unquotable-value"]
