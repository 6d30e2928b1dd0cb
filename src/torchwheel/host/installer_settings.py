"""What torchwheel knows of pip's and uv's settings, which both read themselves; ``installers.toml`` lists them.

Read here are those that decide versions, because an environment's name depends on them. The source of packages is not
part of the name: another mirror has the same releases, and another environment would mean to compile everything again.

Sources: https://pip.pypa.io/en/stable/topics/configuration/ and
https://docs.astral.sh/uv/concepts/configuration-files/
"""

from __future__ import annotations

import configparser
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.host.programs import find_program
from torchwheel.host.this import home_folder
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.system.toml import read_toml

_SECTIONS = ("global", "install")
_CONFIG_FILE = "PIP_CONFIG_FILE"
_NAMES_A_FILE = re.compile(r"^[ \t]*(?:-[cr]\s*|--(?:constraint|requirement)[ =]\s*)(\S+)", re.MULTILINE)
_MOST_FILES = 100
_UV_CONSTRAINTS, _UV_CONSTRAINT_FILES = "build-constraint-dependencies", "UV_BUILD_CONSTRAINT"
_UV_PLACE_VARIABLES = ("UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX")
# uv sets it for its child processes: https://docs.astral.sh/uv/reference/environment/#uv
_UV = "UV"
# pip sets it for its child processes.
_PIP_AT_WORK = "PIP_BUILD_TRACKER"


@cache
def installer_lists() -> Mapping[str, Any]:
    return read_toml(Path(__file__).with_name("installers.toml"))


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


def version_choices(environment: Mapping[str, str]) -> list[str]:
    """Return the installer's settings that affect versions, as texts, with the content of the constraint files."""
    if frontend_uv(environment):
        return _uv_version_choices(environment)
    settings, names = pip_settings(environment), installer_lists()["pip"]["versions"]
    return [
        *_read_constraints(_pip_constraints(settings).split()),
        *(f"--{name}={settings[name]}" for name in names if name in settings),
    ]


def has_another_index(environment: Mapping[str, str]) -> bool:
    """Whether pip or uv is configured to take packages from elsewhere than PyPI."""
    tables = [pip_settings(environment), *_uv_tables(environment)]
    return any(table.get(name) for table in tables for name in installer_lists()["places"]) or any(
        value and name.startswith(_UV_PLACE_VARIABLES) for name, value in environment.items()
    )


def _read_constraints(constraints: Iterable[str]) -> Iterator[str]:
    """Yield the content of constraint files and of those that they include; the name of an unreadable one."""
    pending, seen = list(constraints), set[str]()
    while pending and len(seen) < _MOST_FILES:
        name = pending.pop(0)
        if name in seen:
            continue
        seen.add(name)
        text = read_beginning(Path(name))
        yield text or name
        pending += [str(Path(name).parent / other) for other in _NAMES_A_FILE.findall(text)]


def _configuration_folders(environment: Mapping[str, str]) -> list[Path]:
    """The user's configuration folder, then the system's."""
    home = Path(home_folder(environment))
    if sys.platform == "win32":
        user = environment.get("APPDATA") or home / "AppData/Roaming"
        shared = [environment.get("PROGRAMDATA") or "C:/ProgramData"]
    else:
        user = environment.get("XDG_CONFIG_HOME") or home / ".config"
        shared = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    return [Path(user), *map(Path, shared)]


# --- pip


def pip_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a pip that fills one of torchwheel's environments.

    Variables take precedence over pip's configuration files. Build constraints replace other constraints, as in pip's
    own isolated environments.
    """
    lists, settings = installer_lists()["pip"], pip_settings(environment)
    own: dict[str, str] = {**lists["fixed"]}
    if constraints := _pip_constraints(settings):
        own["PIP_CONSTRAINT"] = constraints
    # pip looks for no keyring where it may not ask, and the new environment has none to import. build does the same.
    if "keyring-provider" not in settings and find_program("keyring", environment.get("PATH", "")):
        own["PIP_KEYRING_PROVIDER"] = "subprocess"
    return {**{name: value for name, value in environment.items() if name not in lists["dropped"]}, **own}


def wants_hashes(environment: Mapping[str, str]) -> bool:
    value = pip_settings(environment).get("require-hashes", "")
    return value.lower() in ("1", "true", "yes", "on", "y", "t")


def _pip_constraints(settings: Mapping[str, str]) -> str:
    return settings.get("build-constraint") or settings.get("constraint", "")


def pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for file in _pip_files(environment):
        # Raw like pip's own, because a URL may contain a percent sign.
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
            for section in filter(parser.has_section, _SECTIONS):
                found[section] |= {_option_name(key): value for key, value in parser.items(section)}
        except (configparser.Error, OSError, ValueError):
            # pip itself reports the fault.
            continue
    found["variables"] = {
        _option_name(name.removeprefix("PIP_")): value
        for name, value in environment.items()
        if name.startswith("PIP_")
    }
    # pip treats an empty value as unset.
    return {key: value for table in found.values() for key, value in table.items() if value}


def _option_name(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")


def _pip_files(environment: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, lowest precedence first."""
    named = environment.get(_CONFIG_FILE)
    if named == os.devnull:
        return []
    home = Path(home_folder(environment))
    name, old = ("pip.ini", "pip") if sys.platform == "win32" else ("pip.conf", ".pip")
    user, *shared = (folder / "pip" for folder in _configuration_folders(environment))
    if sys.platform == "darwin" and is_dir(library := home / "Library/Application Support/pip"):
        user = library
    site, users = Path(sys.prefix, name), [home / old / name, user / name]
    files = [folder / name for folder in (*shared, Path("/etc"))]
    # A named file replaces the user's own files.
    return [*files, site, Path(named)] if named and exists(Path(named)) else [*files, *users, site]


# --- uv


def uv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    dropped = installer_lists()["uv"]["dropped"]
    return {name: value for name, value in environment.items() if name not in dropped}


def uv_constraint_files(environment: Mapping[str, str]) -> list[str]:
    return environment.get(_UV_CONSTRAINT_FILES, "").split()


def uv_constraints(environment: Mapping[str, str]) -> list[str]:
    """The build constraints in uv's files, as requirements."""
    found = (table.get(_UV_CONSTRAINTS) for table in _uv_tables(environment))
    return [str(line) for lines in found if isinstance(lines, list) for line in lines]


def _uv_version_choices(environment: Mapping[str, str]) -> list[str]:
    lists = installer_lists()["uv"]
    tables = [*_uv_tables(environment), {name: environment.get(name) for name in lists["variables"]}]
    return [
        *_read_constraints(uv_constraint_files(environment)),
        *(
            f"{name}={json.dumps(table[name], default=str, sort_keys=True)}"
            for table in tables
            for name in (*lists["versions"], *lists["variables"])
            if table.get(name)
        ),
    ]


def _uv_tables(environment: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield the tables of uv.toml, of the project's ``[tool.uv]``, and of the user's and system's files."""
    for file in _uv_files(environment):
        # uv itself reports a fault.
        with suppress(TorchwheelError, OSError, AttributeError):
            content = read_toml(file)
            # The text may have it in a comment alone.
            own = content.get("tool", {}).get("uv", {}) if file.name == "pyproject.toml" else content
            if isinstance(own, Mapping):
                yield own


def _uv_files(environment: Mapping[str, str]) -> Iterator[Path]:
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
    folders = [*_configuration_folders(environment), Path("/etc")]
    yield from (file for one in folders if is_file(file := one / "uv" / "uv.toml"))
