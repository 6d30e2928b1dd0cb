"""What a downstream project is to the backend: how it describes its extensions, and what is asked of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.survey import project_settings
from torchwheel.extension.tables import ARRAY, has_extension_tables
from torchwheel.host.this import this_host
from torchwheel.settings import Settings
from torchwheel.survey import ConfigSettings

CMAKE = "cmake>=3.20"
"""The oldest CMake with dependency files for commands of its user's."""

_FORWARDED = ("cmake.define.", "define.")
_TARGET_VARIABLE = "cmake.define.TORCHWHEEL_TARGET"


class Way(Enum):
    """How a project describes its extensions; the value is the inner backend's module."""

    TABLES = "tables"
    """``[[tool.torchwheel.extension]]``, built by scikit-build-core with a CMakeLists.txt of torchwheel's."""
    CMAKE = "cmake"
    """A CMakeLists.txt of its own, built by scikit-build-core."""
    SETUP_PY = "setup.py"
    """A setup.py, built by setuptools."""


@dataclass(frozen=True)
class Asked:
    """What a frontend asks of a project.

    Attributes:
        project: its folder.
        way: how it describes its extensions.
        settings: the settings, resolved.
        own: torchwheel's own part of ``-C``.
        inner: the inner backend's part of ``-C``.
        environment: the environment variables.
    """

    project: Path
    way: Way
    settings: Settings
    own: ConfigSettings
    inner: ConfigSettings
    environment: Mapping[str, str]

    @property
    def own_text(self) -> str:
        """torchwheel's own settings as JSON."""
        return json.dumps(dict(self.own), sort_keys=True)


def asked_of_project(
    project: Path, config_settings: ConfigSettings | None, environment: Mapping[str, str]
) -> Asked:
    """Read what a project is and what is asked of it.

    Raises:
        TorchwheelError: it describes no extensions, or the settings are wrong.
    """

    way = way_of(project)
    given: dict[str, Any] = dict(config_settings or {})
    if _TARGET_VARIABLE in given:
        given.setdefault("target", given.pop(_TARGET_VARIABLE))
    settings = project_settings(project, given, environment, this_host(environment))
    own = {key: value for key, value in given.items() if key not in settings.passthrough}
    forwarded = {
        f"cmake.define.{name.removeprefix(prefix)}": value
        for key, value in own.items()
        for name in (key.removeprefix("skbuild."),)
        for prefix in _FORWARDED
        if name.startswith(prefix)
    }
    inner = {**settings.passthrough, **(forwarded if way is not Way.SETUP_PY else {})}
    if way is Way.TABLES:
        # There is no CMakeLists.txt that scikit-build-core could read it from before the build.
        inner.setdefault("cmake.version", CMAKE.removeprefix("cmake"))
    return Asked(project, way, settings, own, inner, environment)


def way_of(project: Path) -> Way:
    """How a project describes its extensions: tables before CMake before setup.py.

    Raises:
        TorchwheelError: it does not, or its pyproject.toml cannot be read.
    """
    if has_extension_tables(project):
        _require_name(project)
        return Way.TABLES
    if (project / "CMakeLists.txt").is_file() or _cmake_elsewhere(project):
        return Way.CMAKE
    if (project / "setup.py").is_file():
        return Way.SETUP_PY
    raise TorchwheelError(
        Problem(
            id="no-extensions",
            what="the project describes no extension",
            remedy=f'add a table {ARRAY} with name = "package._C" and sources = ["csrc/*.cpp"]',
            why=f"{project} has no {ARRAY} in its pyproject.toml, no CMakeLists.txt and no setup.py",
            origin=str(project / "pyproject.toml"),
        )
    )


def _require_name(project: Path) -> None:
    metadata = read_toml(project / "pyproject.toml").get("project")
    if isinstance(metadata, dict) and metadata.get("name"):
        return
    raise TorchwheelError(
        Problem(
            id="no-project-metadata",
            what="the project has no name",
            remedy='add a table [project] with name = "package" and version = "1.0"',
            why=f"the metadata of a project with {ARRAY} is that of [project]",
            origin="pyproject.toml",
        )
    )


def scikit_build_table(project: Path) -> Mapping[str, Any]:
    """``[tool.scikit-build]`` of a project's pyproject.toml."""
    file = project / "pyproject.toml"
    tools = read_toml(file).get("tool", {}) if file.is_file() else {}
    table = tools.get("scikit-build", {}) if isinstance(tools, dict) else {}
    return table if isinstance(table, dict) else {}


def _cmake_elsewhere(project: Path) -> bool:
    cmake = scikit_build_table(project).get("cmake", {})
    folder = cmake.get("source-dir") if isinstance(cmake, dict) else None
    return isinstance(folder, str) and (project / os.fspath(folder) / "CMakeLists.txt").is_file()
