"""The environment that holds the tree's own build requirements, kept from one build to the next.

A frontend's isolated environment has a new path at every run. scikit-build-core throws its CMake cache away
when its own path changes (``.skbuild-info.json``), and include paths into the environment change, so nearly
everything is compiled again. torchwheel therefore installs what the tree's backend needs into an
environment of its own, named by the requirements and the interpreter.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.errors import Problem, TorchwheelError

_READY = "torchwheel-ready.json"
_BELONGS_TO_FRONTEND = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "PYTHONNOUSERSITE")


def environment_folder(cache: Path, requires: Iterable[str], interpreter_tag: str) -> Path:
    """The folder of the environment for these requirements; it need not exist.

    Args:
        cache: torchwheel's cache folder.
        requires: PEP 508 requirement strings.
        interpreter_tag: e.g. ``cp311``.
    """
    digest = hashlib.sha256("\n".join([sys.base_prefix, *sorted(requires)]).encode()).hexdigest()[:12]
    return cache / "environments" / f"{interpreter_tag}-{digest}"


def interpreter_in(folder: Path) -> str:
    """The path of the interpreter in an environment's folder."""
    if sys.platform == "win32":
        return str(folder / "Scripts" / "python.exe")
    return str(folder / "bin" / "python")


def scripts_folder(interpreter: str) -> Path:
    """The folder of an environment's commands, such as cmake and ninja."""
    return Path(interpreter).parent


def requirements_met(requires: Iterable[str]) -> bool:
    """Whether this interpreter's installed distributions satisfy all requirements."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import Requirement

    for text in requires:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            return False
        if not requirement.specifier.contains(found, prereleases=True):
            return False
    return True


def is_short_lived() -> bool:
    """Whether this process runs in an environment that its frontend makes anew for every build.

    pip and build make theirs below the temporary folder, uv below its cache as ``builds-v*``.
    """
    import tempfile

    temporary = Path(tempfile.gettempdir()).resolve()
    places = [sys.prefix, *(p for p in sys.path if p)]
    return any(
        temporary in Path(place).resolve().parents
        or any(part.startswith("builds-v") for part in Path(place).parts)
        for place in places
        if Path(place).name != "" and _is_environment_part(place)
    )


def _is_environment_part(place: str) -> bool:
    """Leave out folders on sys.path that only hold a script, such as pyproject-hooks' own."""
    return place == sys.prefix or "site-packages" in place or "pip-build-env" in place


def ensure_environment(
    folder: Path, requires: tuple[str, ...], environment: Mapping[str, str], log: Path
) -> None:
    """Make the environment unless it is complete, and install requirements that it lacks.

    Args:
        folder: from :func:`environment_folder`.
        requires: what must be installed in it.
        environment: variables for pip; those that point into a frontend's environment are dropped.
        log: gets pip's output.

    Raises:
        TorchwheelError: the environment cannot be made or a requirement cannot be installed.
    """
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    clean = {name: value for name, value in environment.items() if name not in _BELONGS_TO_FRONTEND}
    with FileLock(folder.with_name(folder.name + ".lock")):
        installed = _installed(folder)
        missing = tuple(r for r in requires if r not in installed)
        if installed and not missing:
            return
        try:
            if not installed:
                _create(folder, clean, log)
            if missing:
                pip = [
                    interpreter_in(folder),
                    "-m",
                    "pip",
                    "--disable-pip-version-check",
                    "install",
                    "--quiet",
                ]
                run_streaming([*pip, *missing], folder=folder, environment=clean, log=log)
        except ProcessFailed as failure:
            raise TorchwheelError(_cannot_install(failure, missing)) from failure
        _mark(folder, {*installed, *requires})


def _create(folder: Path, environment: Mapping[str, str], log: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    base = getattr(sys, "_base_executable", None) or sys.executable
    run_streaming([base, "-m", "venv", str(folder)], folder=folder.parent, environment=environment, log=log)


def _installed(folder: Path) -> frozenset[str]:
    try:
        return frozenset(json.loads((folder / _READY).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return frozenset()


def _mark(folder: Path, requirements: set[str]) -> None:
    # An environment without requirements is complete too, and must not read as missing.
    temporary = folder / (_READY + ".part")
    temporary.write_text(json.dumps(sorted(requirements | {"pip"})), encoding="utf-8")
    os.replace(temporary, folder / _READY)


def _cannot_install(failure: ProcessFailed, missing: tuple[str, ...]) -> Problem:
    return Problem(
        id="build-requirements-missing",
        what=f"the tree's build requirements could not be installed: {', '.join(missing) or 'venv'}",
        why=f"the command ended with status {failure.code}; its output is in {failure.log}",
        remedy="check the network and pip's index settings, or install them into the current environment "
        "and use -C build-env=current with a frontend that does not isolate (pip: --no-build-isolation)",
    )
