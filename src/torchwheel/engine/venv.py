"""The environments that torchwheel makes and keeps, for the tree's own backend and for CUDA from PyPI.

A frontend's isolated environment has a new path at every run. scikit-build-core throws its CMake cache away
when its own path changes (``.skbuild-info.json``), and include paths into the environment change, so nearly
everything is compiled again. torchwheel therefore installs what the tree's backend needs into an
environment of its own, named by the requirements and the interpreter.

An environment is never changed once it is ready, since another build may run in it. What a hook asks for beyond it goes
into a folder of its own in front of it, as pip does it for its own isolated builds.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel._files import atomic_write, remove_tree, short_digest
from torchwheel._locks import file_lock, lock_beside
from torchwheel.engine.cache import note_user
from torchwheel.engine.failure import full_disk
from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.host.this import environment_folder, interpreter_in, scripts_folder, site_packages
from torchwheel.terminal import say
from torchwheel.toolkit.pypi import toolkits_folder
from torchwheel.versions import malformed_requirements, requirements_met

FRONTEND_VARIABLES = frozenset(
    {"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
)
"""Variables that lead an interpreter into the environment of the frontend or the user's shell."""

_READY = "torchwheel-ready.json"

_NOT_MADE = "the environment for the tree's build requirements could not be made"

# A user's pip may be set up to install elsewhere; here that would leave the environment empty.
_PIP_DESTINATIONS = frozenset({"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER"})


@dataclass(frozen=True)
class Installing:
    """For which build packages are installed, and with what.

    Attributes:
        source: the tree or project that is built with them.
        environment: variables for pip; those that point into another environment are dropped.
        stall_warning: minutes after which it is told that pip says nothing; 0 for never.
    """

    source: Path
    environment: Mapping[str, str]
    stall_warning: int = 0


def install_toolkit_packages(
    cache: Path, release: str, requires: tuple[str, ...], abi_tag: str, installing: Installing
) -> None:
    """Install PyPI's packages of a CUDA release in an environment that torchwheel keeps.

    It is one of its own: two releases cannot be in one environment, and a tree's requirements need not come along.

    Args:
        cache: torchwheel's cache folder.
        release: the release, ``"13.0"``.
        abi_tag: of the Python that the environment is for.

    Raises:
        TorchwheelError: the environment cannot be made, or the packages cannot be installed.
    """
    say(f"installing CUDA {release} from PyPI: {requires[0]} and its packages")
    log = toolkits_folder(cache) / f"cuda-{release}.log"
    folder = environment_folder(cache, requires, abi_tag)
    ensure_environment(folder, requires, log, installing)


def ensure_environment(folder: Path, requires: tuple[str, ...], log: Path, installing: Installing) -> None:
    """Make the environment unless it is there and whole.

    Args:
        folder: from :func:`environment_folder`, for these requirements.
        requires: what must be installed in it.
        log: gets pip's output.

    Raises:
        TorchwheelError: the environment cannot be made or a requirement cannot be installed.
    """
    _require_sound(requires)
    with _unless_ready(folder, installing.source, has_interpreter=True) as needed:
        if needed:
            _create(folder, installing, log)
            if requires:
                _install(interpreter_in(folder), folder, (), requires, installing, log)


def ensure_overlay(base: Path, more: tuple[str, ...], log: Path, installing: Installing) -> dict[str, str]:
    """What goes in front of the search paths of an environment, so that these requirements are met too.

    Args:
        base: the environment, which is ready and stays as it is.
        more: requirements that it need not meet.
        log: gets pip's output.

    Returns:
        PYTHONPATH and PATH; empty if what is installed in the environment meets them all.

    Raises:
        TorchwheelError: a requirement cannot be installed.
    """
    _require_sound(more)
    if requirements_met(more, [str(site_packages(base))]):
        return {}
    folder = base.with_name(f"{base.name}-{short_digest(sorted(more))}")
    with _unless_ready(folder, installing.source, has_interpreter=False) as needed:
        if needed:
            folder.mkdir()
            # Without --ignore-installed, pip would take out of the environment what is there in another version.
            options = ("--ignore-installed", "--prefix", str(folder))
            _install(interpreter_in(base), folder, options, more, installing, log)
    return {"PYTHONPATH": str(site_packages(folder)), "PATH": str(scripts_folder(interpreter_in(folder)))}


def _require_sound(requires: tuple[str, ...]) -> None:
    """Nothing but requirements comes to pip: a hook of the tree's backend may answer what it likes."""
    if problems := malformed_requirements(requires, "the tree's build requirements"):
        raise TorchwheelError(problems)


@contextmanager
def _unless_ready(folder: Path, source: Path, *, has_interpreter: bool) -> Iterator[bool]:
    """Hold the folder's lock; whether the block must fill it. It is ready when the block has ended without error."""
    lock = lock_beside(folder)
    with file_lock(lock):
        # Says when it was last used, for `torchwheel cache`.
        lock.touch()
        damage = _damage(folder, lock.stat().st_mtime_ns, has_interpreter=has_interpreter)
        if damage:
            if (folder / _READY).exists():
                say(f"making {folder} again: {damage}")
            # What is left in it would be taken for installed.
            if folder.is_symlink() or folder.is_file():
                folder.unlink()
            elif folder.exists():
                remove_tree(folder)
        yield bool(damage)
        if damage:
            names = sorted(path.name for path in site_packages(folder).glob("*.dist-info"))
            atomic_write(folder / _READY, json.dumps(names))
        note_user(folder, source)


def _damage(folder: Path, now: int, *, has_interpreter: bool) -> str:
    """What is wrong with an environment, or "" if all that was installed has the sizes that RECORD states.

    What a clock installed that was ahead, and looks newer than all that is made of it, is from ``now`` on as old as
    that (nanoseconds since 1970).
    """
    packages = site_packages(folder)
    try:
        names = json.loads((folder / _READY).read_text(encoding="utf-8"))
        if not isinstance(names, list):
            return f"{folder / _READY} holds no list"
        if has_interpreter and "home" not in (folder / "pyvenv.cfg").read_text(encoding="utf-8"):
            return f"{folder / 'pyvenv.cfg'} names no interpreter"
        if has_interpreter and not Path(interpreter_in(folder)).exists():
            return f"its interpreter {interpreter_in(folder)} is gone"
        pip = scripts_folder(interpreter_in(folder)) / "pip"
        if has_interpreter and pip.is_file() and not Path(named := _named_by(pip)).exists():
            return f"it was made in another folder: {pip} names {named}, which is gone"
        for record in (packages / str(name) / "RECORD" for name in names):
            rows = list(csv.reader(record.read_text(encoding="utf-8").splitlines()))
            if not rows:
                return f"{record} is empty"
            for name, _digest, size in rows:
                # Compiled modules come and go, and lists of files have no size.
                if name.endswith(".pyc"):
                    continue
                status = (packages / name).stat()
                if size and str(status.st_size) != size:
                    return f"{packages / name} is not as it was installed"
                if status.st_mtime_ns > now:
                    os.utime(packages / name, ns=(now, now))
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except RecursionError:
        return f"{folder / _READY} holds no list"
    except (OSError, ValueError, csv.Error) as error:
        return str(error)
    return ""


def _named_by(script: Path) -> str:
    """The interpreter in the first line of a script."""
    with script.open("rb") as stream:
        return os.fsdecode(stream.readline().removeprefix(b"#!").strip())


def lost_environment(folder: Path, log: Path) -> Problem | None:
    """That a kept environment was damaged or deleted while something ran in it; None for one that is whole."""
    damage = _damage(folder, sys.maxsize, has_interpreter=True)
    if not damage:
        return None
    return Problem(
        id="environment-lost",
        what=f"the environment that the build ran in was deleted or changed meanwhile: {damage}",
        remedy="give the command again: the environment is made again, and what is compiled is kept",
        why=f"what failed for want of it is in {log}",
        origin=str(folder),
    )


def _create(folder: Path, installing: Installing, log: Path) -> None:
    base = getattr(sys, "_base_executable", None) or sys.executable
    refused = Problem(
        id="environment-not-made",
        what=f"{_NOT_MADE} with {base} -m venv",
        remedy="install venv (Debian, Ubuntu: sudo apt-get install python3-venv), or install the requirements "
        "into the current environment and use -C build-env=current",
        origin=str(folder),
    )
    _run([base, "-m", "venv", str(folder)], folder, installing, log, refused)


def _install(
    python: str,
    folder: Path,
    options: tuple[str, ...],
    requires: tuple[str, ...],
    installing: Installing,
    log: Path,
) -> None:
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *options, *requires]
    refused = Problem(
        id="build-requirements-missing",
        what=f"the tree's build requirements could not be installed: {', '.join(requires)}",
        remedy="check the network and pip's index settings, or install them into the current environment "
        "and use -C build-env=current with a frontend that does not isolate (pip: --no-build-isolation)",
    )
    _run(pip, folder, installing, log, refused)


def _run(command: Sequence[str], folder: Path, installing: Installing, log: Path, refused: Problem) -> None:
    """Run venv or pip for an environment's folder; where the disk is full, they fail with another reason."""
    dropped = FRONTEND_VARIABLES | _PIP_DESTINATIONS
    clean = {name: value for name, value in installing.environment.items() if name not in dropped}
    try:
        run_streaming(
            command,
            folder=folder.parent,
            environment=clean,
            log=log,
            stall_warning=installing.stall_warning,
        )
    except ProcessFailed as failure:
        full = full_disk(folder, failure.log, f"{_NOT_MADE}, because the disk is full")
        why = f"the command ended with status {failure.code}; its output is in {failure.log}"
        raise TorchwheelError(full or replace(refused, why=why)) from failure
