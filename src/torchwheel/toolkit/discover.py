"""Find the CUDA toolkits of this machine: on its disks, and in installed packages."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from torchwheel.host.compilers import program_words
from torchwheel.host.machine import Host
from torchwheel.host.programs import ask_program, find_in_answer, find_program
from torchwheel.host.this import environment_folder
from torchwheel.host.this import site_packages as site_packages_of
from torchwheel.reporting.errors import refusal
from torchwheel.settings import Settings
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.system.paths import find_below
from torchwheel.toolkit.cuda_toolkit import Toolkit, assumed_toolkit_at, compiler_in, read_toolkit, toolkit_at
from torchwheel.toolkit.needs import PYPI, SYSTEM
from torchwheel.toolkit.pypi import nvcc_releases, packaged_toolkit, requirements_for, toolkits_folder
from torchwheel.toolkit.select import Candidates

_COMPILER_VARIABLE = "CUDACXX"

# Besides CUDA_PATH the Windows installer sets one for each release: CUDA_PATH_V12_9.
_RELEASE_VARIABLE = re.compile(r"CUDA_PATH_V(\d+)_(\d+)", re.IGNORECASE)

# NVIDIA's installers, Arch Linux (/opt/cuda), and Debian (/usr/lib/cuda and /usr).
_USUAL_PLACES = ("usr/local/cuda", "usr/local/cuda-*", "opt/cuda", "opt/cuda-*", "usr/lib/cuda", "usr")

_ANSWER = re.compile(r"\bV(\d+\.\d+\.\d+)")

# A folder, and its origin in words.
Place = tuple[Path, str]


def find_candidates(
    settings: Settings,
    host: Host,
    environment: Mapping[str, str],
    cache: Path,
    site_packages: Iterable[Path],
    needed: Collection[str],
) -> Candidates:
    """Find the toolkits that a build may choose from, where ``cuda-path`` and ``cuda-from`` allow it.

    A described machine has only the toolkit that is named. Variables in the settings override the environment's.
    """
    folder, environment = toolkits_folder(cache), {**environment, **settings.env}
    if settings.is_cpu:
        return Candidates(folder=folder)
    if settings.cuda_path is not None:
        origin = settings.entries["cuda-path"].origin
        if host.here:
            named: Toolkit | None = toolkit_at(settings.cuda_path, origin)
        elif (named := assumed_toolkit_at(settings.cuda_path, host.platform_tag)) is None:
            values = {"root": settings.cuda_path, "platform": host.platform_tag}
            raise refusal("unknown-toolkit-version", origin=origin, **values)
        return Candidates(named=named, folder=folder)
    if not host.here:
        return Candidates(folder=folder)
    installed = () if settings.cuda_from == PYPI else discover_toolkits(environment)
    folders = () if settings.cuda_from == SYSTEM else (*site_packages, *_kept_packages(settings, host, cache))
    packaged = (packaged_toolkit(one, cache, needed) for one in dict.fromkeys(folders))
    return Candidates(installed=installed, packaged=tuple(filter(None, packaged)), folder=folder)


def _kept_packages(settings: Settings, host: Host, cache: Path) -> Iterator[Path]:
    """Yield the package folders of environments in which torchwheel may have installed NVIDIA's packages."""
    for release in nvcc_releases(host.platform_tag):
        requires = requirements_for(release, settings.cuda)
        yield site_packages_of(environment_folder(cache, requires, host.python.abi_tag))


def discover_toolkits(
    environment: Mapping[str, str], *, system_root: Path = Path("/")
) -> tuple[Toolkit, ...]:
    """Find the CUDA toolkits of this machine that have a compiler, each once.

    First those that variables name, then nvcc on ``PATH``, then the usual folders with the newest release first.
    """
    found: dict[str, Toolkit] = {}
    for named, origin in _find_places(environment, system_root):
        folder = named.absolute()
        real = os.path.realpath(folder)
        if real in found or compiler_in(folder / "bin") is None:
            continue
        if toolkit := read_toolkit(folder, origin):
            found[real] = toolkit
    return tuple(found.values())


def _find_places(environment: Mapping[str, str], system_root: Path) -> Iterator[Place]:
    for name, value in pytorch_variables().find_values("cuda-path", environment):
        yield Path(value), name
    if compiler := environment.get(_COMPILER_VARIABLE):
        search = environment.get("PATH", "")
        for program in program_words(compiler, search, platform.system())[:1]:
            if found := find_program(program, search):
                yield from _places_of_compiler(Path(found), _COMPILER_VARIABLE)
    for folder in filter(None, environment.get("PATH", "").split(os.pathsep)):
        if nvcc := compiler_in(Path(folder)):
            yield from _places_of_compiler(nvcc, "nvcc on PATH")
    yield from _usual_places(environment, system_root)


def _places_of_compiler(nvcc: Path, origin: str) -> Iterator[Place]:
    """Yield the folder above a compiler's ``bin``, as named and with links resolved."""
    for path in dict.fromkeys((nvcc, Path(os.path.realpath(nvcc)))):
        yield path.parent.parent, origin


def _usual_places(environment: Mapping[str, str], system_root: Path) -> Iterator[Place]:
    variables = [name for name in environment if _RELEASE_VARIABLE.fullmatch(name)]
    for name in sorted(variables, key=_numbers_in, reverse=True):
        yield Path(environment[name]), name
    if program_files := environment.get("ProgramFiles") or environment.get("PROGRAMFILES"):
        place = Path(program_files) / "NVIDIA GPU Computing Toolkit/CUDA"
        for folder in _newest_first(find_below(place, "v*")):
            yield folder, str(place)
    if sys.platform == "win32":
        return
    for pattern in _USUAL_PLACES:
        for folder in _newest_first(find_below(system_root, pattern)):
            # /usr/local/cuda is a link that changes when another release is installed.
            yield Path(os.path.realpath(folder)), str(folder)


def _newest_first(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=lambda folder: _numbers_in(folder.name), reverse=True)


def _numbers_in(name: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", name))


@cache
def nvcc_version(nvcc: str) -> str:
    """Return the version of an nvcc, ``"13.0.88"``, by running it; once for each nvcc and process.

    Raises:
        NoAnswer: it does not print its version in time.
    """
    return find_in_answer(_ANSWER, ask_program([nvcc, "--version"]))[1]
