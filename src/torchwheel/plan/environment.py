"""The environment variables of a plan's inner build."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from torchwheel.host.compiler_cache import cache_variables
from torchwheel.host.jobs import Jobs
from torchwheel.host.machine import Host, Language
from torchwheel.plan.build_plan import BuildFolders, Define, Variable, WheelVersion
from torchwheel.plan.cuda_variables import (
    COMPILER_VARIABLE,
    PIN_VARIABLE,
    SEARCH_PATHS,
    CudaVariables,
    is_of_release,
    names_nvcc,
)
from torchwheel.plan.forwarding import INCLUDE_BEFORE, Forwarding, environment_text
from torchwheel.reporting.errors import Finding, Problem, warning
from torchwheel.reporting.terminal import config_option
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.settings.value_types import is_same_value

_PREPROCESSOR = "CPPFLAGS"
_COMPILERS: dict[str, Language] = {"CC": "c", "CXX": "cxx"}

JOB_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
"""The number of jobs, for PyTorch's build and for ``cmake --build``, in that order."""

VERSION_VARIABLES = ("PYTORCH_BUILD_VERSION", "PYTORCH_BUILD_NUMBER")
"""The wheel's version, and a number that would be appended to it."""


def variables_for(
    settings: Settings,
    host: Host,
    ways: Forwarding,
    defines: Iterable[Define],
    cuda: CudaVariables | None,
    version: WheelVersion,
    jobs: Jobs,
) -> tuple[Variable, ...]:
    """Return all variables of the inner build, except those that name its folders."""
    variables = {
        name: Variable.of(name, setting.text, setting) for name, setting in settings.variables.items()
    }
    planned = [
        *_job_variables(settings, ways, jobs),
        *_version_variables(settings, version),
        *_option_variables(ways, defines),
    ]
    if cuda is not None:
        planned += cuda.variables(host)
    for variable in planned:
        there = variables.get(variable.name) if variable.prepend else None
        # Settings outrank requested variables, because otherwise the build would choose between two values.
        variables[variable.name] = variable if there is None else _in_front(variable, there, host)
    return tuple(variables.values())


def variable_findings(settings: Settings, variables: Iterable[Variable]) -> Iterator[Finding]:
    """Warn about requested variables that a setting overrides."""
    for variable in variables:
        requested = settings.variables.get(variable.name)
        if requested is None or variable.name in SEARCH_PATHS:
            continue
        named = variable.origin == requested.origin or names_nvcc(requested.text, variable.value)
        if variable.name == COMPILER_VARIABLE and named:
            continue
        if variable.name == PIN_VARIABLE and is_of_release(requested.text, variable.value):
            continue
        if not is_same_value(variable.value, requested.value):
            yield warning(_overruled_variable(variable, requested))


def with_folders(
    variables: Iterable[Variable],
    settings: Settings,
    host: Host,
    folders: BuildFolders,
    cache: str | None,
    *,
    included: bool,
    maps_paths: bool,
) -> tuple[Variable, ...]:
    """Add the variables that name the build's own folders; sorted by name.

    Args:
        included: whether a variable names ``folders.defines_file`` for CMake to include.
        maps_paths: whether compilers outside CMake get the flags that keep the folder's path out of objects.
    """
    own = [folders.root] if folders.staged else [folders.source, folders.root]
    # The cache folder also has environments and toolkits, which are the same in another home.
    bases = [folders.cache, *own] if folders.staged and folders.cache in folders.root.parents else own
    cache_settings = cache_variables(settings.compiler_cache, cache, bases, windows=host.system == "Windows")
    reason = "compiler cache hits from another folder"
    added = {name: Variable(name, value, Layer.DEFAULT, reason) for name, value in cache_settings.items()}
    every = added | {variable.name: variable for variable in variables}
    if included:
        origin = "torchwheel's own file for CMake"
        every[INCLUDE_BEFORE] = Variable(
            INCLUDE_BEFORE, folders.defines_file.as_posix(), Layer.DEFAULT, origin
        )
    if maps_paths:
        # setuptools compiles torch._C itself, with Python's own flags, which may include debug information. Unlike
        # CMake it reads this variable.
        flag = shlex.quote(f"-ffile-prefix-map={folders.source}=/pytorch")
        there = every.get(_PREPROCESSOR)
        value = f"{there.value} {flag}" if there else flag
        every[_PREPROCESSOR] = Variable(_PREPROCESSOR, value, Layer.DEFAULT, "SOURCE_DATE_EPOCH")
    return tuple(_with_quoted_program(every[name], host) for name in sorted(every))


def _with_quoted_program(variable: Variable, host: Host) -> Variable:
    """Quote a compiler's path with blanks, because setuptools reads the variable as a command line."""
    compiler = host.find_compiler(_COMPILERS[variable.name]) if variable.name in _COMPILERS else None
    if compiler is None or host.system == "Windows" or str(Path(variable.value).absolute()) != compiler.path:
        return variable
    return replace(variable, value=shlex.quote(variable.value))


def _overruled_variable(variable: Variable, requested: Setting) -> Problem:
    rule = pytorch_variables().find_rule(variable.name)
    key = rule.becomes if rule is not None else "env"
    setting = f"{key}.{variable.name}" if key in ("define", "env") else key
    leave_out = requested.ambient or key == "env"
    return Problem.of(
        "variable-overruled" if leave_out else "variable-overruled/setting",
        origin=requested.origin,
        name=variable.name,
        value=variable.value,
        origin_of_value=variable.origin,
        requested=requested.text,
        option=config_option(setting, requested.text),
    )


def _in_front(folder: Variable, there: Variable, host: Host) -> Variable:
    """Put the toolkit's folder in front of a search path that the user set."""
    separator = ";" if host.system == "Windows" else ":"
    return replace(there, value=f"{folder.value}{separator}{there.value}")


def _option_variables(ways: Forwarding, defines: Iterable[Define]) -> Iterator[Variable]:
    for define in defines:
        if ways.by_environment(define.name):
            yield Variable.of(define.name, environment_text(define.value), define)


def _version_variables(settings: Settings, version: WheelVersion) -> Iterator[Variable]:
    name, number = VERSION_VARIABLES
    yield _decided_variable(name, str(version), settings.get("package-version"), version.base_origin)
    yield _decided_variable(number, "1", None, "a higher one would become part of the local label")


def _job_variables(settings: Settings, ways: Forwarding, jobs: Jobs) -> Iterator[Variable]:
    for name in JOB_VARIABLES:
        # setup.py would pass every CMAKE_ variable on as an option, and CMake would warn that it is unused.
        if name.startswith("CMAKE_") and not ways.defines:
            continue
        yield _decided_variable(name, str(jobs.max_jobs), settings.get("jobs"), jobs.reason)


def _decided_variable(name: str, value: str, setting: Setting | None, reason: str) -> Variable:
    """Return a variable with a setting as its source, or without one with ``reason``."""
    return Variable.of(name, value, setting) if setting else Variable(name, value, Layer.DEFAULT, reason)
