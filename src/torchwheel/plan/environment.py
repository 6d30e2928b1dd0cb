"""The environment variables of a plan's inner build."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from torchwheel.errors import Finding, Problem, warning
from torchwheel.host.compiler_cache import cache_variables
from torchwheel.host.jobs import Jobs
from torchwheel.host.model import Host, Language
from torchwheel.plan.cuda_variables import SEARCH_PATHS, CudaVariables
from torchwheel.plan.forwarding import INCLUDE_BEFORE, Forwarding, environment_text
from torchwheel.plan.model import BuildFolders, Define, Variable, WheelVersion
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.settings.value_types import is_same_value
from torchwheel.terminal import config_option

_PREPROCESSOR = "CPPFLAGS"
_COMPILERS: dict[str, Language] = {"CC": "c", "CXX": "cxx"}

JOB_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
"""How many compilers run at once: to PyTorch's build and to ``cmake --build``, in that order."""


def variables_for(
    settings: Settings,
    host: Host,
    ways: Forwarding,
    defines: Iterable[Define],
    cuda: CudaVariables | None,
    version: WheelVersion,
    jobs: Jobs,
) -> tuple[Variable, ...]:
    """All variables that the inner build is given, but for those that name its folders."""
    variables = {
        name: Variable.of(name, setting.text, setting) for name, setting in settings.variables.items()
    }
    planned = [*_jobs(settings, ways, jobs), *_version(settings, version), *_options(ways, defines)]
    if cuda is not None:
        planned += cuda.variables(host)
    for variable in planned:
        there = variables.get(variable.name) if variable.prepend else None
        # What follows from settings outranks variables: two answers to one question would leave it to the build.
        variables[variable.name] = variable if there is None else _in_front(variable, there, host)
    return tuple(variables.values())


def variable_findings(settings: Settings, variables: Iterable[Variable]) -> Iterator[Finding]:
    """Warnings about variables that were requested, where a setting says something else."""
    for variable in variables:
        requested = settings.variables.get(variable.name)
        if requested is None or variable.name in SEARCH_PATHS:
            continue
        if not is_same_value(variable.value, requested.value):
            yield warning(_overruled(variable, requested))


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
    """The variables together with those that name the build's own folders, sorted by name.

    Args:
        cache: the compiler cache.
        included: whether a variable names ``folders.defines_file`` for CMake to include.
        maps_paths: whether compilers that no CMake file speaks to get the flags that keep the path of the folder out.
    """
    own = [folders.root] if folders.staged else [folders.source, folders.root]
    # Environments and toolkits lie there as well, and are the same in another home.
    bases = [folders.cache, *own] if folders.staged and folders.cache in folders.root.parents else own
    cache_settings = cache_variables(settings.compiler_cache, cache, bases, windows=host.system == "Windows")
    reason = "compiler cache hits from another folder"
    added = {name: Variable(name, value, Layer.DEFAULT, reason) for name, value in cache_settings.items()}
    every = added | {variable.name: variable for variable in variables}
    if included:
        origin = "options that setup.py does not forward"
        every[INCLUDE_BEFORE] = Variable(INCLUDE_BEFORE, str(folders.defines_file), Layer.DEFAULT, origin)
    if maps_paths:
        # setuptools compiles torch._C by itself, where Python's own flags may ask for debug information. It reads this
        # variable, and CMake does not.
        flag = shlex.quote(f"-ffile-prefix-map={folders.source}=/pytorch")
        there = every.get(_PREPROCESSOR)
        value = f"{there.value} {flag}" if there else flag
        every[_PREPROCESSOR] = Variable(_PREPROCESSOR, value, Layer.DEFAULT, "SOURCE_DATE_EPOCH")
    return tuple(_with_quoted_program(every[name], host) for name in sorted(every))


def _with_quoted_program(variable: Variable, host: Host) -> Variable:
    """A variable whose value is the path of a compiler, blanks and all, as a command line, which setuptools reads."""
    compiler = host.find_compiler(_COMPILERS[variable.name]) if variable.name in _COMPILERS else None
    if compiler is None or host.system == "Windows" or str(Path(variable.value).absolute()) != compiler.path:
        return variable
    return replace(variable, value=shlex.quote(variable.value))


def _overruled(variable: Variable, requested: Setting) -> Problem:
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
    """A search path that the user sets whole, with the toolkit's folder in front."""
    separator = ";" if host.system == "Windows" else ":"
    return replace(there, value=f"{folder.value}{separator}{there.value}")


def _options(ways: Forwarding, defines: Iterable[Define]) -> Iterator[Variable]:
    for define in defines:
        if ways.by_environment(define.name):
            yield Variable.of(define.name, environment_text(define.value), define)


def _version(settings: Settings, version: WheelVersion) -> Iterator[Variable]:
    yield _decided("PYTORCH_BUILD_VERSION", str(version), settings.get("version"), version.base_origin)
    yield _decided("PYTORCH_BUILD_NUMBER", "1", None, "a higher one would become part of the local label")


def _jobs(settings: Settings, ways: Forwarding, jobs: Jobs) -> Iterator[Variable]:
    for name in JOB_VARIABLES:
        # setup.py would hand every CMAKE_ variable on as an option, and CMake then warns that nothing reads it.
        if name.startswith("CMAKE_") and not ways.defines:
            continue
        yield _decided(name, str(jobs.max_jobs), settings.get("jobs"), jobs.reason)


def _decided(name: str, value: str, setting: Setting | None, reason: str) -> Variable:
    """A variable that follows from a setting, or for that reason without one."""
    return Variable.of(name, value, setting) if setting else Variable(name, value, Layer.DEFAULT, reason)
