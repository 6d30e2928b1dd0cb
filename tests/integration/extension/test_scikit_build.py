"""What stops scikit-build-core is told in torchwheel's way, without its traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from extension.projects import PROJECT, Built
from torchwheel.extension.inner_backend import required_packages
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.survey import BuildRequest

CMAKE = "cmake_minimum_required(VERSION 3.20)\nproject(pkg LANGUAGES CXX)\n"


class Hooks(Built):
    """Calls the backend's hooks of a project in a process of its own, with programs of one's own before all others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "CMake", project="projekt é")
        self.programs = folder / "programs"
        self.programs.mkdir()

    def describe(self, pyproject: str = PROJECT, cmake: str = CMAKE) -> None:
        self.write("CMakeLists.txt", cmake)
        self.write("pyproject.toml", pyproject)

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def variables(self, **variables: str) -> dict[str, str]:
        whole = super().variables(**variables)
        return {**whole, "PATH": f"{self.programs}{os.pathsep}{whole['PATH']}"}

    def refused(self, hook: str) -> str:
        """What a hook that fails says of it."""
        failed = self.call(hook)
        assert failed.returncode == 2, failed.stdout
        assert "Traceback" not in failed.stdout + failed.stderr
        return failed.stderr


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


@pytest.mark.parametrize("program", ["cmake", "ninja"])
def test_no_program_of_the_version_that_the_project_needs(hooks: Hooks, program: str) -> None:
    hooks.describe(PROJECT + f'[tool.scikit-build]\n{program}.version = ">=99.1"\n')
    told = hooks.refused("build_wheel")
    assert told.splitlines()[0].endswith("[project-refused]")


@pytest.mark.parametrize(
    ("table", "script", "expected"),
    [
        ('cmake.version = ">=3.27,<4"', "echo cmake version 3.26.4", ["cmake>=3.27,<4"]),
        ('cmake.version = ">=3.27,<4"', "echo cmake version 3.31", []),
        ('cmake.version = "CMakeLists.txt"', "echo cmake version 3.21.9", ["cmake>=3.22"]),
        ("", "exit 3", ["cmake>=3.22"]),
        ('cmake.source-dir = "nowhere"', "echo cmake version 3.19", ["cmake>=3.20"]),
    ],
)
def test_a_front_end_installs_a_cmake_where_that_of_the_machine_does_not_serve(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, table: str, script: str, expected: list[str]
) -> None:
    """Before scikit-build-core is installed, which could say it."""
    hooks.describe(f"{PROJECT}[tool.scikit-build]\n{table}\n", "cmake_minimum_required(VERSION 3.22...4.0)\n")
    hooks.program("cmake", script)
    hooks.program("ninja", "echo 1.10.1")
    monkeypatch.setattr("torchwheel.extension.extension_project.find_spec", lambda name: None)
    monkeypatch.syspath_prepend(str(hooks.packages))
    request = BuildRequest(hooks.project, {}, {"PATH": str(hooks.programs)})
    hook = "get_requires_for_build_wheel"
    needed = ["scikit-build-core>=1.0", *expected, "setuptools>=77"]
    assert required_packages(request, hook) == needed
    hooks.program("ninja", "echo 1.4")
    assert required_packages(request, hook) == [*needed, "ninja>=1.11"]


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable", "build_sdist"])
def test_metadata_that_is_refused(hooks: Hooks, hook: str) -> None:
    hooks.describe('[project]\nname = "pkg"\nreadme = "nope.md"\n')
    problems = [
        Problem.of("project-refused", origin="pyproject.toml", reason=reason)
        for reason in (
            'Field "project.version" missing and \'version\' not specified in "project.dynamic"',
            "Readme file not found ('nope.md')",
        )
    ]
    assert hooks.refused(hook) == f"torchwheel: {TorchwheelError(problems)}\n"


def test_the_traceback_that_is_asked_for(hooks: Hooks) -> None:
    hooks.describe(PROJECT + '[tool.scikit-build]\ncmake.version = ">=99.1"\n')
    failed = hooks.call("build_wheel", TORCHWHEEL_TRACEBACK="1")
    assert failed.returncode == 1
    assert "CMakeNotFoundError: Could not find CMake with version >=99.1" in failed.stdout


def test_a_crash_keeps_its_traceback(hooks: Hooks) -> None:
    """Of code that is the project's own, the traceback says where to look."""
    dynamic = '[project]\nname = "pkg"\ndynamic = ["version"]\n'
    plugin = '[[tool.dynamic-metadata]]\nprovider = {path = "plugins", module = "own"}\nfield = "version"\n'
    hooks.describe(dynamic + plugin)
    hooks.write("plugins/own.py", "def dynamic_metadata(*_, **__):\n    raise ValueError('my own')\n")
    failed = hooks.call("build_wheel")
    assert failed.returncode == 1
    assert 'own.py", line 2, in dynamic_metadata' in failed.stdout
    assert "ValueError: my own" in failed.stderr
