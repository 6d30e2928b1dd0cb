"""The settings of pip and uv that reach torchwheel's environments, from variables and configuration files.

``installers.toml`` lists them. The source of packages is not part of an environment's name: another mirror has the same
releases, and another environment would mean to compile everything again.

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
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.host.programs import find_program
from torchwheel.host.this import home_folder
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.system.toml import read_toml

CONSTRAINTS = "build-constraint-dependencies"
"""uv.toml's key for build constraints, a list of requirements."""

_SECTIONS = ("global", "install")
_CONFIG_FILE = "PIP_CONFIG_FILE"
_NAMES_A_FILE = re.compile(r"^[ \t]*(?:-[cr]\s*|--(?:constraint|requirement)[ =]\s*)(\S+)", re.MULTILINE)
_MOST_FILES = 100
_OF_BUILDS, _OF_ALL = "build-constraint", "constraint"
_UV_CONSTRAINT_FILES = "UV_BUILD_CONSTRAINT"
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
    chosen = _only(pip_settings(environment), installer_lists()["pip"]["versions"])
    constraints = chosen.pop(_OF_ALL, "")
    constraints = chosen.pop(_OF_BUILDS, constraints)
    return [
        *_read_constraints(constraints.split()),
        *(f"--{key}={value}" for key, value in sorted(chosen.items())),
    ]


def has_another_index(environment: Mapping[str, str]) -> bool:
    """Whether pip or uv is configured to take packages from elsewhere than PyPI."""
    return bool(
        _only(pip_settings(environment), installer_lists()["pip"]["places"])
        or _only(uv_settings(environment), installer_lists()["uv"]["places"])
        or any(value and name.startswith(_UV_PLACE_VARIABLES) for name, value in environment.items())
    )


def _only(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}


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

    It has only pip's settings that are passed on, and no configuration file overrides them. Build constraints replace
    other constraints, as in pip's own isolated environments.
    """
    settings = pip_settings(environment)
    if _OF_BUILDS in settings:
        settings[_OF_ALL] = settings[_OF_BUILDS]
    return _with_settings(settings, environment)


def pip_variables_for_one_place(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a pip whose arguments name the only index.

    Of pip's settings it has those for access, such as proxies and certificates, and no other index.
    """
    lists = installer_lists()["pip"]
    kept = (name for name in lists["access"] if name not in lists["places"])
    return _with_settings(_only(_all_pip_settings(environment), kept), environment)


def _with_settings(settings: dict[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    # The new environment has no keyring to import. build does the same.
    if "keyring-provider" not in settings and find_program("keyring", environment.get("PATH", "")):
        settings["keyring-provider"] = "subprocess"
    kept = {name: value for name, value in environment.items() if not name.startswith("PIP_")}
    own = {
        f"PIP_{option.upper().replace('-', '_')}": _from_elsewhere(option, value)
        for option, value in settings.items()
    }
    return {**kept, **own, _CONFIG_FILE: os.devnull}


def pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    lists = installer_lists()["pip"]
    return _only(_all_pip_settings(environment), (*lists["versions"], *lists["access"]))


def wants_hashes(environment: Mapping[str, str]) -> bool:
    value = _all_pip_settings(environment).get("require-hashes", "")
    return value.lower() in ("1", "true", "yes", "on", "y", "t")


def _all_pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
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


def _from_elsewhere(option: str, value: str) -> str:
    """Make the relative paths in a value absolute; in a list as URLs, so that blanks do not split them."""
    if option in installer_lists()["pip"]["files"]:
        return str(Path(value).absolute())
    if option not in installer_lists()["pip"]["paths"]:
        return value
    return " ".join(
        Path(word).absolute().as_uri() if "://" not in word and exists(Path(word)) else word
        for word in value.split()
    )


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
    table = installer_lists()["uv-variables"]
    passed, prefix = {*table["versions"], *table["access"]} - {_UV_CONSTRAINT_FILES}, table["access-prefix"]
    return {
        name: value
        for name, value in environment.items()
        if not name.startswith("UV_") or name in passed or name.startswith(prefix)
    }


def uv_constraints(environment: Mapping[str, str]) -> list[str]:
    named = environment.get(_UV_CONSTRAINT_FILES, "").split()
    return [name if "://" in name else str(Path(name).absolute()) for name in named]


def uv_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """Merge the settings of uv.toml, the project's ``[tool.uv]``, and the user's and system's files, like uv.

    Only settings that are passed on are included.
    """
    lists = installer_lists()["uv"]
    joined: dict[str, Any] = {}
    for file in _uv_files(environment):
        try:
            content = read_toml(file)
        except (TorchwheelError, OSError):
            # uv itself reports the fault.
            continue
        own = content.get("tool", {}).get("uv", {}) if file.name == "pyproject.toml" else content
        for key, value in _only(own, (*lists["versions"], *lists["access"])).items():
            value = _absolute_paths(key, value, file.parent)
            there = joined.setdefault(key, value)
            if there is not value and isinstance(there, list) and isinstance(value, list):
                joined[key] = [*there, *value]
    return joined


def _uv_version_choices(environment: Mapping[str, str]) -> list[str]:
    lists = installer_lists()
    variables = (name for name in lists["uv-variables"]["versions"] if name != _UV_CONSTRAINT_FILES)
    chosen = _only(uv_settings(environment), lists["uv"]["versions"])
    chosen |= {name: value for name, value in _only(environment, variables).items() if value}
    texts = (
        f"{key}={json.dumps(value, default=str, sort_keys=True)}" for key, value in sorted(chosen.items())
    )
    return [*_read_constraints(uv_constraints(environment)), *texts]


def _absolute_paths(key: str, value: Any, folder: Path) -> Any:
    """Make the paths in a value absolute; uv resolves them from the file's folder."""
    if isinstance(value, list):
        return [_absolute_paths(key, one, folder) for one in value]
    if key == "index" and isinstance(value, dict) and "url" in value:
        return {**value, "url": _absolute_paths("index-url", value["url"], folder)}
    is_path = key in installer_lists()["uv"]["paths"] and isinstance(value, str) and "://" not in value
    return str((folder / value).absolute()) if is_path and exists(folder / value) else value


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
