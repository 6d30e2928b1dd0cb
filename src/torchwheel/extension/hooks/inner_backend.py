"""Calling the backend inside: scikit-build-core's or setuptools' public hooks, in this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.hooks.project import Asked, Way
from torchwheel.host.model import Host

SCIKIT_BUILD_CORE = "scikit-build-core>=1.0"
SETUPTOOLS = "setuptools>=77"

_MODULES = {
    Way.TABLES: ("scikit_build_core.build", SCIKIT_BUILD_CORE),
    Way.CMAKE: ("scikit_build_core.build", SCIKIT_BUILD_CORE),
    Way.SETUP_PY: ("setuptools.build_meta", SETUPTOOLS),
}


def is_installed(way: Way) -> bool:
    """Whether the inner backend of a way is installed."""
    return find_spec(_MODULES[way][0].partition(".")[0]) is not None


def requirement(way: Way) -> str:
    """The inner backend of a way, for installing."""
    return _MODULES[way][1]


def hook(way: Way, name: str) -> Callable[..., Any]:
    """One hook of the inner backend.

    Raises:
        TorchwheelError: the backend is not installed.
    """
    module, needed = _MODULES[way]
    if not is_installed(way):
        raise TorchwheelError(
            Problem(
                id="inner-backend-missing",
                what=f"{needed.partition('>')[0]}, which builds the package around the extensions, is not installed",
                remedy=f"pip install '{needed}', or build with isolation, which installs it",
            )
        )
    loaded: ModuleType = import_module(module)
    found: Callable[..., Any] = getattr(loaded, name)
    return found


def require_tools(environment: Mapping[str, str]) -> None:
    """See that CMake and ninja are there, before scikit-build-core looks for them.

    Raises:
        TorchwheelError: one is missing; both are in it if both are.
    """
    problems = [
        Problem(
            id=f"no-{name}",
            what=f"there is no {name}, which {purpose}",
            remedy=f"pip install {name}, or build with isolation, which installs it",
            why="it is neither installed in this environment nor on PATH",
        )
        for name, variable, purpose in (
            ("cmake", "CMAKE_EXECUTABLE", "configures the build"),
            ("ninja", "CMAKE_MAKE_PROGRAM", "runs the compilers"),
        )
        if not environment.get(variable) and not has_program(name, environment)
    ]
    if problems:
        raise TorchwheelError(problems)


def has_program(name: str, environment: Mapping[str, str]) -> bool:
    """Whether a program is on PATH, or PyPI's package of it is installed."""
    spec = find_spec(name)
    return (spec is not None and spec.origin is not None) or on_path(name, environment)


def on_path(name: str, environment: Mapping[str, str]) -> bool:
    """Whether a program is on PATH."""
    return shutil.which(name, path=environment.get("PATH")) is not None


@contextmanager
def build_environment(asked: Asked, host: Host, jobs: int, folder: str) -> Iterator[None]:
    """The environment variables that the inner backend is to see, for as long as it runs.

    Args:
        asked: what is asked for.
        host: this machine.
        jobs: how many compilers may run at once.
        folder: the build folder, which a compiler cache takes paths relative to.
    """
    ours = {
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_BASEDIR": folder,
        "CCACHE_SLOPPINESS": "include_file_mtime,include_file_ctime",
    }
    for name, compiler in (("CC", host.compiler("c")), ("CXX", host.compiler("cxx"))):
        if compiler is not None and compiler.found:
            ours[name] = " ".join([compiler.path, *compiler.arguments])
    with _changed({name: value for name, value in ours.items() if not asked.environment.get(name)}):
        yield


@contextmanager
def _changed(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
