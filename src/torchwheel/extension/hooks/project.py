"""What a downstream project is to the backend: how it describes its extensions, and what a frontend requests."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.model import Extension
from torchwheel.extension.pyproject_extensions import ARRAY, has_extension_tables
from torchwheel.extension.survey import ExtensionProject, read_extension_project
from torchwheel.settings.project import Project
from torchwheel.survey import BuildRequest, ConfigSettings

CMAKE = "cmake>=3.20"
"""The oldest CMake with dependency files for commands of its user's."""

_SCIKIT_BUILD = ("tool", "scikit-build")
_FORWARDED = ("cmake.define.", "define.")
_TARGET_VARIABLE = "cmake.define.TORCHWHEEL_TARGET"

# Where scikit-build-core looks for a package of the project's name, and where packages of other names are looked for.
_PARENTS = ("src", "python", "")


class ProjectKind(Enum):
    """How a project describes its extensions."""

    TABLES = "tables"
    """``[[tool.torchwheel.extension]]``, built by scikit-build-core with a CMakeLists.txt of torchwheel's."""
    CMAKE = "cmake"
    """A CMakeLists.txt of its own, built by scikit-build-core."""
    SETUP_PY = "setup.py"
    """A setup.py, built by setuptools."""


@dataclass(frozen=True)
class HookRequest:
    """What a frontend requests of a project.

    Attributes:
        own: torchwheel's own part of ``-C``.
        inner: the inner backend's part of ``-C``.
    """

    project: ExtensionProject
    kind: ProjectKind
    own: ConfigSettings
    inner: ConfigSettings


def read_hook_request(request: BuildRequest) -> HookRequest:
    """Read what a project is and what a frontend requests of it.

    Raises:
        TorchwheelError: it describes no extensions, or the settings are wrong.
    """
    given: dict[str, Any] = dict(request.config_settings)
    if _TARGET_VARIABLE in given:
        given.setdefault("target", given.pop(_TARGET_VARIABLE))
    # The compilers that CMake is given are nvcc's host compiler and decide the build folder, too.
    keys = {"CC": "cmake.define.CMAKE_C_COMPILER", "CXX": "cmake.define.CMAKE_CXX_COMPILER"}
    compilers = {name: quoted_program(str(given[key])) for name, key in keys.items() if key in given}
    environment = {**request.environment, **compilers}
    project = read_extension_project(replace(request, config_settings=given, environment=environment))
    kind = project_kind(project.pyproject)
    passthrough = project.settings.passthrough
    own = {key: value for key, value in given.items() if key not in passthrough}
    forwarded = {
        f"cmake.define.{name.removeprefix(prefix)}": value
        for key, value in own.items()
        for name in (key.removeprefix("skbuild."),)
        for prefix in _FORWARDED
        if name.startswith(prefix)
    }
    inner = {**passthrough, **(forwarded if kind is not ProjectKind.SETUP_PY else {})}
    if kind is ProjectKind.TABLES:
        # There is no CMakeLists.txt that scikit-build-core could read it from before the build.
        inner.setdefault("cmake.version", CMAKE.removeprefix("cmake"))
    return HookRequest(project, kind, own, inner)


def quoted_program(path: str) -> str:
    """A compiler's path as ``CC`` and ``CXX`` hold it."""
    return path if os.name == "nt" else shlex.quote(path)


def project_kind(project: Project) -> ProjectKind:
    """How a project describes its extensions: tables before CMake before setup.py.

    Raises:
        TorchwheelError: it does not.
    """
    folder = project.folder
    if has_extension_tables(project):
        if not project.table("project").get("name"):
            raise TorchwheelError(
                Problem(
                    id="no-project-metadata",
                    what="the project has no name",
                    remedy='add a table [project] with name = "package" and version = "1.0"',
                    why=f"the metadata of a project with {ARRAY} is that of [project]",
                    origin="pyproject.toml",
                )
            )
        return ProjectKind.TABLES
    source_dir = project.table(*_SCIKIT_BUILD, "cmake").get("source-dir")
    elsewhere = folder / source_dir if isinstance(source_dir, str) else folder
    if (folder / "CMakeLists.txt").is_file() or (elsewhere / "CMakeLists.txt").is_file():
        return ProjectKind.CMAKE
    if (folder / "setup.py").is_file():
        return ProjectKind.SETUP_PY
    raise TorchwheelError(
        Problem(
            id="no-extensions",
            what="the project describes no extension",
            remedy=f'add a table {ARRAY} with name = "package._C" and sources = ["csrc/*.cpp"]',
            why=f"{folder} has no {ARRAY} in its pyproject.toml, no CMakeLists.txt and no setup.py",
            origin=str(folder / "pyproject.toml"),
        )
    )


def wheel_packages(project: ExtensionProject, extensions: tuple[Extension, ...]) -> tuple[str, ...]:
    """The packages to put into the wheel, for ``wheel.packages``; empty to leave it to scikit-build-core.

    It looks for a package of the project's name alone; extensions may lie in packages of other names.
    """
    if "packages" in project.pyproject.table(*_SCIKIT_BUILD, "wheel"):
        return ()
    name = project.pyproject.table("project").get("name", "")
    names = dict.fromkeys([re.sub(r"[-_.]+", "_", str(name)).lower()])
    names.update((e.name.partition(".")[0], None) for e in extensions if "." in e.name)
    folders = (_package(package, project.folder) for package in names)
    return tuple(folder for folder in folders if folder)


def _package(name: str, project: Path) -> str | None:
    folders = (f"{parent}/{name}".lstrip("/") for parent in _PARENTS)
    return next((folder for folder in folders if name and (project / folder).is_dir()), None)
