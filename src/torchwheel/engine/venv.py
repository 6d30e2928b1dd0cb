"""The environments that torchwheel manages, for the tree's own backend and for CUDA from PyPI.

A frontend's isolated environment has a new path at every run. scikit-build-core discards its CMake cache when its own
path changes (``.skbuild-info.json``), and include paths into the environment change, so nearly everything is compiled
again. torchwheel's own is named by the requirements and the interpreter.

An environment is never changed once it is ready, because another build may run in it. Further requirements of a hook
are installed into a separate folder that precedes it on the search paths, as in pip's own isolated builds.
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

from packaging.requirements import InvalidRequirement, Requirement

from torchwheel.engine.cache import note_user
from torchwheel.engine.process import ProcessFailed, full_disk, last_lines, run_streaming
from torchwheel.host.installer import (
    Installer,
    find_installer,
    installing_variables,
    pip_variables,
    read_installer,
    wants_hashes,
)
from torchwheel.host.this import (
    base_interpreter,
    environment_folder,
    interpreter_in,
    scripts_folder,
    site_packages,
)
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.reporting.terminal import join_items, say
from torchwheel.system.files import atomic_write, remove_tree, short_digest
from torchwheel.system.locks import file_lock, lock_beside
from torchwheel.system.paths import exists, is_file
from torchwheel.toolkit.pypi import toolkits_folder
from torchwheel.versions import malformed_requirements, unmet_requirements

_READY = "torchwheel-ready.json"

# The first pip with --python.
_OWN_PIP = ("pip>=22.3",)

_NOT_MADE = "the environment for the tree's build requirements could not be made"


@dataclass(frozen=True)
class Installing:
    """For whom an installation is, and pip's variables; those that point into another environment are dropped."""

    source: Path
    environment: Mapping[str, str]


def install_toolkit_packages(
    cache: Path, release: str, requires: tuple[str, ...], abi_tag: str, installing: Installing
) -> None:
    """Install a CUDA release's packages into an environment of their own; two releases cannot share one."""
    say(f"installing CUDA {release} from PyPI")
    log = toolkits_folder(cache) / f"cuda-{release}.log"
    folder = environment_folder(cache, requires, abi_tag)
    ensure_environment(folder, requires, log, installing)


def ensure_environment(folder: Path, requires: tuple[str, ...], log: Path, installing: Installing) -> None:
    """Create the environment unless it exists and is intact, without ensurepip's pip, which is as old as the Python."""
    _require_sound(requires)
    with _unless_ready(folder, folder, requires, installing.source) as needed:
        if needed:
            _create_environment(folder, installing, log, "--without-pip")
            if requires:
                _install_packages(folder, requires, installing, log)


def ensure_overlay(base: Path, more: tuple[str, ...], log: Path, installing: Installing) -> dict[str, str]:
    """Install more requirements beside the ready environment ``base``; returns folders for PYTHONPATH and PATH.

    There are none if it meets them all.
    """
    _require_sound(more)
    if not unmet_requirements(more, [str(site_packages(base))]):
        return {}
    folder = base.with_name(f"{base.name}-{short_digest(sorted(more))}")
    with _unless_ready(folder, base, more, installing.source) as needed:
        if needed:
            folder.mkdir()
            _install_packages(base, more, installing, log, prefix=folder)
    return {"PYTHONPATH": str(site_packages(folder)), "PATH": str(scripts_folder(interpreter_in(folder)))}


def _require_sound(requires: tuple[str, ...]) -> None:
    """Refuse anything but requirements, because a hook of the tree's backend may return any text."""
    if problems := malformed_requirements(requires, "the tree's build requirements"):
        raise TorchwheelError(problems)


@contextmanager
def _unless_ready(folder: Path, base: Path, requires: tuple[str, ...], source: Path) -> Iterator[bool]:
    """Hold the folder's lock; yields whether the block must fill it to meet ``requires``, in it or in ``base``."""
    lock = lock_beside(folder)
    with file_lock(lock):
        # Records the last use, for `torchwheel cache`.
        lock.touch()
        damage = _find_damage(folder, base, lock.stat().st_mtime_ns)
        if damage:
            if exists(folder / _READY):
                say(f"making {folder} again: {damage}")
            # Leftovers in it would count as installed.
            if folder.is_symlink() or is_file(folder):
                folder.unlink()
            elif exists(folder):
                remove_tree(folder)
        yield bool(damage)
        if damage:
            # A successful installer may not have installed all.
            if unmet := unmet_requirements(requires, _packages_of(folder, base)):
                lacking = ", ".join(unmet)
                raise refusal("build-requirements-missing/silent", origin=folder, requirements=lacking)
            # By name, because a deleted .dist-info would otherwise go unnoticed.
            names = sorted(path.name for path in site_packages(folder).glob("*.dist-info"))
            mark = {"folder": str(folder), "requires": _without_addresses(requires), "packages": names}
            atomic_write(folder / _READY, json.dumps(mark))
        note_user(folder, source)


def _without_addresses(requires: tuple[str, ...]) -> list[str]:
    """Return requirements without their URLs, which may contain a password."""
    read = [Requirement(text) for text in requires]
    for requirement in read:
        requirement.url = None
    return sorted(map(str, read))


def _packages_of(folder: Path, base: Path) -> list[str]:
    return [str(site_packages(place)) for place in dict.fromkeys((folder, base))]


def _find_damage(folder: Path, base: Path, now: int) -> str:
    """Describe the damage of an environment; empty if it meets its requirements and all files have RECORD's sizes.

    Files later than ``now`` (nanoseconds since 1970) get that time.
    """
    packages, has_interpreter = site_packages(folder), folder == base
    try:
        mark = json.loads((folder / _READY).read_text(encoding="utf-8"))
        if not isinstance(mark, dict) or not {"folder", "requires", "packages"} <= mark.keys():
            return f"{folder / _READY} is not as torchwheel writes it"
        if has_interpreter and "home" not in (folder / "pyvenv.cfg").read_text(encoding="utf-8"):
            return f"{folder / 'pyvenv.cfg'} names no interpreter"
        if has_interpreter and not exists(Path(interpreter_in(folder))):
            return f"its interpreter {interpreter_in(folder)} is missing"
        # The scripts of a venv name its interpreter by an absolute path.
        if mark["folder"] != str(folder):
            return f"it was made in another folder, {mark['folder']}"
        for record in (packages / str(name) / "RECORD" for name in mark["packages"]):
            rows = list(csv.reader(record.read_text(encoding="utf-8").splitlines()))
            if not rows:
                return f"{record} is empty"
            for name, _digest, size in rows:
                # Compiled modules are temporary, and lists of files have no size.
                if name.endswith(".pyc"):
                    continue
                status = (packages / name).stat()
                if size and str(status.st_size) != size:
                    return f"{packages / name} is not as it was installed"
                # From a wrong clock; it would look newer than outputs made with it.
                if status.st_mtime_ns > now:
                    os.utime(packages / name, ns=(now, now))
        if unmet := unmet_requirements(map(str, mark["requires"]), _packages_of(folder, base)):
            return f"it lacks {', '.join(unmet)}"
    except FileNotFoundError as error:
        return f"{error.filename} is missing"
    except (RecursionError, TypeError, InvalidRequirement):
        return f"{folder / _READY} is not as torchwheel writes it"
    except (OSError, ValueError, csv.Error) as error:
        return str(error)
    return ""


def lost_environment(folder: Path, log: Path) -> Problem | None:
    """Report that a managed environment was damaged or deleted while it was in use; None if it is intact."""
    # No file is later than this time, so nothing is touched in an environment that is in use.
    if damage := _find_damage(folder, folder, sys.maxsize):
        return Problem.of("environment-lost", origin=folder, damage=damage, log=log)
    return None


def _create_environment(folder: Path, installing: Installing, log: Path, *options: str) -> None:
    base = base_interpreter()
    refused = Problem.of("environment-not-made", origin=folder, what=_NOT_MADE, python=base)
    variables = installing_variables(installing.environment)
    command = [base, "-I", "-m", "venv", *options, str(folder)]
    _run_installer(command, variables, folder, log, refused)


def _install_packages(
    base: Path, requires: tuple[str, ...], installing: Installing, log: Path, prefix: Path | None = None
) -> None:
    """Install requirements into an environment, or beside it into the folder ``prefix``."""
    installer = find_installer(installing.environment) or _own_pip(base, installing, log)
    say(f"installing {join_items(requires)} with {installer}")
    if wants_hashes(installing.environment):
        say("build requirements have no hashes, so require-hashes is not applied; see docs/hashes.md")
    named = {"installer": installer, "requirements": ", ".join(requires), "program": installer.name}
    refused = Problem.of("build-requirements-missing", **named)
    started = installer.install_command(requires, interpreter_in(base), prefix, installing.environment)
    with started as (command, variables):
        _run_installer(command, variables, prefix or base, log, refused)


def _own_pip(beside: Path, installing: Installing, log: Path) -> Installer:
    """Return the newest pip, installed for frontends without a usable one."""
    folder = beside.with_name(f"{beside.name.partition('-')[0]}-pip")
    command = (interpreter_in(folder), "-I", "-m", "pip")
    with _unless_ready(folder, folder, _OWN_PIP, installing.source) as needed:
        if needed:
            _create_environment(folder, installing, log)
            refused = Problem.of("build-requirements-missing/pip")
            upgrade = [*command, "--disable-pip-version-check", "install", "--upgrade", *_OWN_PIP]
            variables = pip_variables(installing.environment)
            _run_installer(upgrade, variables, folder, log, refused)
    installer = read_installer(command, installing.environment)
    assert installer is not None
    return installer


def _run_installer(
    command: Sequence[str], variables: Mapping[str, str], folder: Path, log: Path, refused: Problem
) -> None:
    """Run venv or an installer for an environment's folder; report a full disk, which they may not show."""
    try:
        run_streaming(
            command,
            # The settings of pip and uv may have relative paths, and uv reads the project's.
            folder=Path.cwd(),
            environment=variables,
            log=log,
            # Errors are quoted in the problem below.
            show=lambda line: line if line.lower().startswith(b"warning") else b"",
        )
    except ProcessFailed as failure:
        full = full_disk(folder, failure.log, f"{_NOT_MADE}, because the disk is full")
        why = last_lines(failure.log, failure.start, first="ERROR:")
        raise TorchwheelError(full or replace(refused, why=why)) from failure
