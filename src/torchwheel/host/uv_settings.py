"""What uv is set up to do, where it is the frontend: by variables, uv.toml and ``[tool.uv]``.

``installers.toml`` says which settings count. Source: https://docs.astral.sh/uv/concepts/configuration-files/
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._files import beginning
from torchwheel._toml import read_toml
from torchwheel.errors import TorchwheelError
from torchwheel.host.pip_settings import contents
from torchwheel.host.programs import find_program
from torchwheel.host.this import home_folder

CONSTRAINTS = "build-constraint-dependencies"
"""The key of uv.toml that holds constraints of builds, as a list of requirements."""

_CONSTRAINT_FILES = "UV_BUILD_CONSTRAINT"
# uv sets it for all that it starts: https://docs.astral.sh/uv/reference/environment/#uv
_UV = "UV"
# pip sets it for what it starts.
_PIP_AT_WORK = "PIP_BUILD_TRACKER"


def frontend_uv(environment: Mapping[str, str]) -> str | None:
    """Return the uv that builds, or that made the environment that this runs in; None where uv did neither."""
    if _PIP_AT_WORK in environment:
        return None
    if started_by := environment.get(_UV):
        return started_by
    # uv names itself in the environments that it makes.
    made_by = beginning(Path(sys.prefix, "pyvenv.cfg")).splitlines()
    if any(line.startswith("uv = ") for line in made_by):
        return find_program("uv", environment.get("PATH", ""))
    return None


def uv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a uv that fills one of torchwheel's environments: with what is passed on."""
    table = _lists()["uv-variables"]
    passed, prefix = {*table["versions"], *table["access"]} - {_CONSTRAINT_FILES}, table["access-prefix"]
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("UV_") or name in passed or name.startswith(prefix)
    }


def uv_constraints(environment: Mapping[str, str]) -> list[str]:
    """Return the files of constraints that a variable names."""
    named = environment.get(_CONSTRAINT_FILES, "").split()
    return [name if "://" in name else str(Path(name).absolute()) for name in named]


def uv_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what uv.toml, ``[tool.uv]`` of the project, and the user's and the system's files set, as uv joins them.

    Only what is passed on is in it.
    """
    table = _lists()["uv"]
    counting = {*table["versions"], *table["access"]}
    joined: dict[str, Any] = {}
    for file in _configuration_files(environment):
        try:
            content = read_toml(file)
        except (TorchwheelError, OSError):
            # uv itself says what is wrong with it.
            continue
        own = content.get("tool", {}).get("uv", {}) if file.name == "pyproject.toml" else content
        for key, value in own.items():
            if key not in counting:
                continue
            value = _absolute(key, value, file.parent)
            there = joined.setdefault(key, value)
            if there is not value and isinstance(there, list) and isinstance(value, list):
                joined[key] = [*there, *value]
    return joined


def uv_version_choices(environment: Mapping[str, str]) -> list[str]:
    """Return the settings of uv that versions depend on, as texts, with what is in the files of constraints."""
    lists = _lists()
    settings = uv_settings(environment)
    chosen = {key: settings[key] for key in lists["uv"]["versions"] if key in settings}
    variables = [name for name in lists["uv-variables"]["versions"] if name != _CONSTRAINT_FILES]
    chosen |= {name: environment[name] for name in variables if environment.get(name)}
    texts = (
        f"{key}={json.dumps(value, default=str, sort_keys=True)}" for key, value in sorted(chosen.items())
    )
    return [*contents(uv_constraints(environment)), *texts]


@cache
def _lists() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("installers.toml"))


def _absolute(key: str, value: Any, folder: Path) -> Any:
    """A value with its paths made absolute, which uv takes from the folder of the file."""
    if key == "index" and isinstance(value, list):
        return [{**one, "url": _place(one["url"], folder)} if "url" in one else one for one in value]
    if key not in _lists()["uv"]["paths"]:
        return value
    return [_place(one, folder) for one in value] if isinstance(value, list) else _place(value, folder)


def _place(text: Any, folder: Path) -> Any:
    relative = isinstance(text, str) and "://" not in text and (folder / text).exists()
    return str((folder / text).absolute()) if relative else text


def _configuration_files(environment: Mapping[str, str]) -> Iterator[Path]:
    """uv's configuration files, the one that counts most first."""
    if environment.get("UV_NO_CONFIG", "").lower() in ("1", "true", "yes", "on"):
        return
    if named := environment.get("UV_CONFIG_FILE"):
        yield Path(named)
        return
    here = Path.cwd()
    for folder in (here, *here.parents):
        pyproject = folder / "pyproject.toml"
        if (folder / "uv.toml").is_file():
            yield folder / "uv.toml"
            break
        if pyproject.is_file() and "[tool.uv" in beginning(pyproject):
            yield pyproject
            break
    home = Path(home_folder(environment))
    if sys.platform == "win32":
        folders = [environment.get("APPDATA", ""), environment.get("PROGRAMDATA", "")]
    else:
        shared = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
        folders = [environment.get("XDG_CONFIG_HOME") or str(home / ".config"), *shared, "/etc"]
    yield from (file for one in folders if one and (file := Path(one, "uv", "uv.toml")).is_file())
