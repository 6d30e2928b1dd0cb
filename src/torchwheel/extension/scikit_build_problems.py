"""Convert scikit-build-core's errors to problems: unsuitable CMake and ninja, and refused metadata.

This runs in the process of the inner backend, in the project's folder and environment.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable
from itertools import dropwhile
from pathlib import Path
from traceback import extract_tb
from typing import Any, Literal

import scikit_build_core.build as backend
from packaging.specifiers import SpecifierSet
from scikit_build_core.errors import NinjaNotFoundError, NotFoundError
from scikit_build_core.program_search import (
    Program,
    get_cmake_program,
    get_cmake_programs,
    get_ninja_programs,
)
from scikit_build_core.settings.skbuild_model import ScikitBuildSettings
from scikit_build_core.settings.skbuild_read_settings import SettingsReader

from torchwheel.extension.handover import read_handover, record_problems
from torchwheel.host.programs import VERSION, NoAnswer, ask_program, find_in_answer
from torchwheel.reporting.errors import Problem, TorchwheelError, system_problem, traceback_wanted

_UPPER_BOUNDS = ("<", "<=")

# The folders of the package and of Python's own modules; packages may be installed below the latter.
_OWN, _STANDARD = Path(backend.__file__).parents[1], Path(sysconfig.get_path("stdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def report_error(error: Exception, hook: str, arguments: Iterable[Any]) -> bool:
    """Pass an error about the project or the machine to the hook that started this process.

    Returns:
        False if its traceback is more informative, as for a bug, or is requested.
    """
    given = next((one for one in arguments if isinstance(one, dict)), {})
    problems, caller = _problems_of(error, hook, given), read_handover(os.environ)
    if not problems or caller is None or traceback_wanted(caller.config_settings):
        return False
    return record_problems(TorchwheelError(problems), os.environ)


def _problems_of(error: Exception, hook: str, given: dict[str, Any]) -> list[Problem]:
    if isinstance(error, TorchwheelError):
        return list(error.problems)
    if isinstance(error, NotFoundError):
        state: Literal["sdist", "wheel", "editable"] = "editable" if "editable" in hook else "wheel"
        state = "sdist" if "sdist" in hook else state
        settings = SettingsReader.from_file("pyproject.toml", given, state=state).settings
        return [
            _ninja_problem(settings) if isinstance(error, NinjaNotFoundError) else _cmake_problem(settings)
        ]
    if not _is_own(error):
        return []
    if isinstance(error, OSError):
        return [system_problem(error)]
    return [
        Problem.of("project-refused", origin="pyproject.toml", reason=one or type(one).__name__)
        for one in getattr(error, "exceptions", [error])
    ]


def _is_own(error: Exception) -> bool:
    """Whether only scikit-build-core's own code was running, not a plugin's or the project's."""
    places = (Path(frame.filename) for frame in extract_tb(error.__traceback__))
    inside = dropwhile(lambda place: not place.is_relative_to(_OWN), places)
    return all(place.is_relative_to(_OWN) or _is_standard(place) for place in inside)


def _is_standard(place: Path) -> bool:
    frozen = place.name.startswith("<frozen ")
    return frozen or (place.is_relative_to(_STANDARD) and not set(place.parts) & set(_INSTALLED))


def _cmake_problem(settings: ScikitBuildSettings) -> Problem:
    variable = "CMAKE_EXECUTABLE"
    if named := os.environ.get(variable):
        remedy = f"name another one with {variable}, or unset that and"
        return _unsuitable_program("cmake", [get_cmake_program(Path(named))], settings.cmake.version, remedy)
    return _unsuitable_program("cmake", get_cmake_programs(), settings.cmake.version)


def _ninja_problem(settings: ScikitBuildSettings) -> Problem:
    return _unsuitable_program("ninja", get_ninja_programs(), settings.ninja.version)


_UNFIT = {
    ("cmake", "does-not-answer"): "cmake-does-not-answer/extension",
    ("cmake", "too-old"): "cmake-too-old/extension",
    ("cmake", "too-new"): "cmake-too-new/extension",
    ("ninja", "does-not-answer"): "ninja-does-not-answer/extension",
    ("ninja", "too-old"): "ninja-too-old",
    ("ninja", "too-new"): "ninja-too-new",
}


def _unsuitable_program(
    name: str, programs: Iterable[Program], needed: SpecifierSet | None, advice: str = ""
) -> Problem:
    """Report why none of the programs is suitable."""
    found = list(dict.fromkeys(programs))
    versions = [one.version for one in found if one.version is not None]
    bounds = [one for one in needed or () if one.operator in _UPPER_BOUNDS]
    if versions:
        new = any(not bound.contains(version, prereleases=True) for bound in bounds for version in versions)
        fault = "too-new" if new else "too-old"
    else:
        fault = "does-not-answer"
    install = f'pip install "{name}{needed or ""}"'
    return Problem.of(
        _UNFIT[name, fault],
        needed=needed or "",
        programs="; ".join(_describe_answer(one) for one in found),
        fix=f"{advice} {install}" if advice else f"{install}, or build with isolation, which installs it",
    )


def _describe_answer(program: Program) -> str:
    if program.version is not None:
        return f"{program.path} is {program.version}"
    try:
        text = find_in_answer(VERSION, ask_program([str(program.path), "--version"]))[0]
    except NoAnswer as reason:
        return str(reason)
    return f"{program.path} says {text}, and did not answer scikit-build-core"
