"""The environments that torchwheel makes and keeps, for the tree's own backend and for CUDA from PyPI.

A frontend's isolated environment has a new path at every run. scikit-build-core throws its CMake cache away
when its own path changes (``.skbuild-info.json``), and include paths into the environment change, so nearly
everything is compiled again. torchwheel therefore installs what the tree's backend needs into an
environment of its own, named by the requirements and the interpreter.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from torchwheel._files import atomic_write, file_lock
from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.host.environments import environment_folder, interpreter_in
from torchwheel.toolkit.pypi import toolkits_folder

FRONTEND_VARIABLES = frozenset(
    {"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
)
"""Variables that lead an interpreter into the environment of the frontend or the user's shell."""

_READY = "torchwheel-ready.json"

# A user's pip may be set up to install elsewhere; here that would leave the environment empty.
_PIP_DESTINATIONS = frozenset({"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER"})


def install_toolkit_packages(
    cache: Path, release: str, requires: tuple[str, ...], interpreter_tag: str, environment: Mapping[str, str]
) -> None:
    """Install PyPI's packages of a CUDA release in an environment that torchwheel keeps.

    It is one of its own: two releases cannot be in one environment, and a tree's requirements need not come along.

    Args:
        cache: torchwheel's cache folder.
        release: the release, ``"13.0"``.
        requires: the packages.
        interpreter_tag: of the Python that the environment is for.
        environment: the environment variables.

    Raises:
        TorchwheelError: the environment cannot be made, or the packages cannot be installed.
    """
    print(f"torchwheel: installing CUDA {release} from PyPI: {' '.join(requires)}", flush=True)
    log = toolkits_folder(cache) / f"cuda-{release}.log"
    ensure_environment(environment_folder(cache, requires, interpreter_tag), requires, environment, log)


def ensure_environment(
    folder: Path, requires: tuple[str, ...], environment: Mapping[str, str], log: Path
) -> None:
    """Make the environment unless it is complete, and install requirements that it lacks.

    Args:
        folder: from :func:`environment_folder`.
        requires: what must be installed in it.
        environment: variables for pip; those that point into another environment are dropped.
        log: gets pip's output.

    Raises:
        TorchwheelError: the environment cannot be made or a requirement cannot be installed.
    """
    dropped = FRONTEND_VARIABLES | _PIP_DESTINATIONS
    clean = {name: value for name, value in environment.items() if name not in dropped}
    with file_lock(folder.with_name(folder.name + ".lock")):
        installed = _installed(folder)
        missing = tuple(r for r in requires if r not in installed)
        if installed and not missing:
            return
        if not installed:
            _create(folder, clean, log)
        if missing:
            _install(folder, missing, clean, log)
        _mark(folder, {*installed, *requires})


def _create(folder: Path, environment: Mapping[str, str], log: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    base = getattr(sys, "_base_executable", None) or sys.executable
    try:
        run_streaming(
            [base, "-m", "venv", str(folder)], folder=folder.parent, environment=environment, log=log
        )
    except ProcessFailed as failure:
        raise TorchwheelError(_cannot_create(folder, base, failure)) from failure


def _install(folder: Path, missing: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
    pip = [interpreter_in(folder), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    try:
        run_streaming([*pip, *missing], folder=folder, environment=environment, log=log)
    except ProcessFailed as failure:
        raise TorchwheelError(_cannot_install(failure, missing)) from failure


def _installed(folder: Path) -> frozenset[str]:
    try:
        return frozenset(json.loads((folder / _READY).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return frozenset()


def _mark(folder: Path, requirements: set[str]) -> None:
    # An environment without requirements is complete too, and must not read as missing.
    atomic_write(folder / _READY, json.dumps(sorted(requirements | {"pip"})))


def _cannot_create(folder: Path, base: str, failure: ProcessFailed) -> Problem:
    return Problem(
        id="environment-not-made",
        what=f"the environment for the tree's build requirements could not be made with {base} -m venv",
        why=f"the command ended with status {failure.code}; its output is in {failure.log}",
        remedy="install venv (Debian, Ubuntu: sudo apt-get install python3-venv), or install the requirements "
        "into the current environment and use -C build-env=current",
        origin=str(folder),
    )


def _cannot_install(failure: ProcessFailed, missing: tuple[str, ...]) -> Problem:
    return Problem(
        id="build-requirements-missing",
        what=f"the tree's build requirements could not be installed: {', '.join(missing)}",
        why=f"the command ended with status {failure.code}; its output is in {failure.log}",
        remedy="check the network and pip's index settings, or install them into the current environment "
        "and use -C build-env=current with a frontend that does not isolate (pip: --no-build-isolation)",
    )
