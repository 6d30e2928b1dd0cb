"""uv's settings when it is the frontend: from variables, uv.toml and ``[tool.uv]``.

``installers.toml`` lists the settings. Source: https://docs.astral.sh/uv/concepts/configuration-files/
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.host.pip_settings import read_constraints
from torchwheel.host.programs import find_program
from torchwheel.host.this import home_folder
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_file
from torchwheel.system.toml import read_toml

CONSTRAINTS = "build-constraint-dependencies"
"""uv.toml's key for build constraints, a list of requirements."""

_CONSTRAINT_FILES = "UV_BUILD_CONSTRAINT"
# uv sets it for its child processes: https://docs.astral.sh/uv/reference/environment/#uv
_UV = "UV"
# pip sets it for its child processes.
_PIP_AT_WORK = "PIP_BUILD_TRACKER"


def frontend_uv(environment: Mapping[str, str]) -> str | None:
    """Return the uv that is the frontend or created this environment; None if uv did neither."""
    # pip may be the frontend in an environment that uv created.
    if _PIP_AT_WORK in environment:
        return None
    if started_by := environment.get(_UV):
        return started_by
    # uv names itself in the environments that it creates.
    made_by = read_beginning(Path(sys.prefix, "pyvenv.cfg")).splitlines()
    if any(line.startswith("uv = ") for line in made_by):
        return find_program("uv", environment.get("PATH", ""))
    return None


def uv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    table = _read_lists()["uv-variables"]
    passed, prefix = {*table["versions"], *table["access"]} - {_CONSTRAINT_FILES}, table["access-prefix"]
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("UV_") or name in passed or name.startswith(prefix)
    }


def uv_constraints(environment: Mapping[str, str]) -> list[str]:
    """Return the constraint files that a variable names."""
    named = environment.get(_CONSTRAINT_FILES, "").split()
    return [name if "://" in name else str(Path(name).absolute()) for name in named]


def uv_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Merge the settings of uv.toml, the project's ``[tool.uv]``, and the user's and system's files, like uv.

    Only settings that are passed on are included.
    """
    table = _read_lists()["uv"]
    counting = {*table["versions"], *table["access"]}
    joined: dict[str, Any] = {}
    for file in _configuration_files(environment):
        try:
            content = read_toml(file)
        except (TorchwheelError, OSError):
            # uv itself reports the fault.
            continue
        own = content.get("tool", {}).get("uv", {}) if file.name == "pyproject.toml" else content
        for key, value in own.items():
            if key not in counting:
                continue
            value = _absolute_paths(key, value, file.parent)
            there = joined.setdefault(key, value)
            if there is not value and isinstance(there, list) and isinstance(value, list):
                joined[key] = [*there, *value]
    return joined


def uv_version_choices(environment: Mapping[str, str]) -> list[str]:
    """Return uv's settings that affect versions, as texts, with the content of the constraint files."""
    lists = _read_lists()
    settings = uv_settings(environment)
    chosen = {key: settings[key] for key in lists["uv"]["versions"] if key in settings}
    variables = [name for name in lists["uv-variables"]["versions"] if name != _CONSTRAINT_FILES]
    chosen |= {name: environment[name] for name in variables if environment.get(name)}
    texts = (
        f"{key}={json.dumps(value, default=str, sort_keys=True)}" for key, value in sorted(chosen.items())
    )
    return [*read_constraints(uv_constraints(environment)), *texts]


@cache
def _read_lists() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("installers.toml"))


def _absolute_paths(key: str, value: Any, folder: Path) -> Any:
    """Make the paths in a value absolute; uv resolves them from the file's folder."""
    if key == "index" and isinstance(value, list):
        return [{**one, "url": _absolute_place(one["url"], folder)} if "url" in one else one for one in value]
    if key not in _read_lists()["uv"]["paths"]:
        return value
    return (
        [_absolute_place(one, folder) for one in value]
        if isinstance(value, list)
        else _absolute_place(value, folder)
    )


def _absolute_place(text: Any, folder: Path) -> Any:
    relative = isinstance(text, str) and "://" not in text and exists(folder / text)
    return str((folder / text).absolute()) if relative else text


def _configuration_files(environment: Mapping[str, str]) -> Iterator[Path]:
    """uv's configuration files, highest precedence first."""
    if environment.get("UV_NO_CONFIG", "").lower() in ("1", "true", "yes", "on"):
        return
    if named := environment.get("UV_CONFIG_FILE"):
        yield Path(named)
        return
    here = Path.cwd()
    for folder in (here, *here.parents):
        pyproject = folder / "pyproject.toml"
        if is_file(folder / "uv.toml"):
            yield folder / "uv.toml"
            break
        if is_file(pyproject) and "[tool.uv" in read_beginning(pyproject):
            yield pyproject
            break
    home = Path(home_folder(environment))
    if sys.platform == "win32":
        folders = [environment.get("APPDATA", ""), environment.get("PROGRAMDATA", "")]
    else:
        shared = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
        folders = [environment.get("XDG_CONFIG_HOME") or str(home / ".config"), *shared, "/etc"]
    yield from (file for one in folders if one and is_file(file := Path(one, "uv", "uv.toml")))
