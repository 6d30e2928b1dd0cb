"""pip's settings from variables and configuration files, as far as they apply to torchwheel's environments.

``installers.toml`` lists the options. The source of packages is not part of an environment's name: another mirror has
the same releases, and another environment would mean to compile everything again.

Source: https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.host.programs import find_program
from torchwheel.host.this import home_folder
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_dir
from torchwheel.system.toml import read_toml

_SECTIONS = ("global", "install")
_CONFIG_FILE = "PIP_CONFIG_FILE"
_NAMES_A_FILE = re.compile(r"^[ \t]*(?:-[cr]\s*|--(?:constraint|requirement)[ =]\s*)(\S+)", re.MULTILINE)
_MOST_FILES = 100
_OF_BUILDS, _OF_ALL = "build-constraint", "constraint"


@dataclass(frozen=True)
class PipOptions:
    """The options of pip that are passed on, as ``installers.toml`` lists them."""

    versions: frozenset[str]
    access: frozenset[str]
    places: frozenset[str]
    paths: frozenset[str]
    files: frozenset[str]
    since: Mapping[str, str]


@cache
def pip_options() -> PipOptions:
    """Return the lists for pip in ``installers.toml``."""
    table = read_toml(Path(__file__).with_name("installers.toml"))["pip"]
    return PipOptions(
        versions=frozenset(table["versions"]),
        access=frozenset(table["access"]),
        places=frozenset(table["places"]),
        paths=frozenset(table["paths"]),
        files=frozenset(table["files"]),
        since=table["since"],
    )


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
    options = pip_options()
    kept = options.access - options.places
    settings = {key: value for key, value in _all_settings(environment).items() if key in kept}
    return _with_settings(settings, environment)


def _with_settings(settings: dict[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with these settings of pip and no others."""
    # The new environment has no keyring to import. build does the same.
    if "keyring-provider" not in settings and find_program("keyring", environment.get("PATH", "")):
        settings["keyring-provider"] = "subprocess"
    kept = {name: value for name, value in environment.items() if not name.startswith("PIP_")}
    own = {_variable_name(option): _from_elsewhere(option, value) for option, value in settings.items()}
    return {**kept, **own, _CONFIG_FILE: os.devnull}


def version_choices(environment: Mapping[str, str]) -> list[str]:
    """Return pip's settings that affect versions, as texts, with the content of the constraint files."""
    options = pip_options()
    chosen = {key: value for key, value in pip_settings(environment).items() if key in options.versions}
    constraints = chosen.pop(_OF_ALL, "")
    constraints = chosen.pop(_OF_BUILDS, constraints)
    return [
        *read_constraints(constraints.split()),
        *(f"--{key}={value}" for key, value in sorted(chosen.items())),
    ]


def pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return pip's options that are passed on, from configuration files and variables."""
    options = pip_options()
    counting = options.versions | options.access
    return {key: value for key, value in _all_settings(environment).items() if key in counting}


def wants_hashes(environment: Mapping[str, str]) -> bool:
    """Whether pip is configured to require hashes."""
    value = _all_settings(environment).get("require-hashes", "")
    return value.lower() in ("1", "true", "yes", "on", "y", "t")


def _all_settings(environment: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for file in _configuration_files(environment):
        # Raw like pip's own, because a URL may contain a percent sign.
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
            for section in filter(parser.has_section, _SECTIONS):
                found[section] |= {_option_name(key): value for key, value in parser.items(section)}
        except (configparser.Error, OSError, ValueError):
            # pip itself reports the fault.
            continue
    variables = {
        _option_name(name.removeprefix("PIP_").lower()): value
        for name, value in environment.items()
        if name.startswith("PIP_")
    }
    # pip treats an empty value as unset.
    return {key: value for table in (*found.values(), variables) for key, value in table.items() if value}


def read_constraints(constraints: Iterable[str]) -> Iterator[str]:
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


def _option_name(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")


def _variable_name(option: str) -> str:
    return f"PIP_{option.upper().replace('-', '_')}"


def _from_elsewhere(option: str, value: str) -> str:
    """Make the relative paths in a value absolute; in a list as URLs, so that blanks do not split them."""
    options = pip_options()
    if option in options.files:
        return str(Path(value).absolute())
    if option not in options.paths:
        return value
    return " ".join(
        Path(word).absolute().as_uri() if "://" not in word and exists(Path(word)) else word
        for word in value.split()
    )


def _configuration_files(environment: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, lowest precedence first."""
    named = environment.get(_CONFIG_FILE)
    if named == os.devnull:
        return []
    home = Path(home_folder(environment))
    if sys.platform == "win32":
        folders = [environment.get("PROGRAMDATA", ""), str(home), environment.get("APPDATA", "")]
        files = [Path(folder, "pip", "pip.ini") for folder in folders if folder]
        site = Path(sys.prefix, "pip.ini")
    else:
        user = Path(environment.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
        if sys.platform == "darwin" and is_dir(own := home / "Library/Application Support/pip"):
            user = own / "pip.conf"
        shared = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
        files = [
            *(Path(one, "pip", "pip.conf") for one in shared),
            Path("/etc/pip.conf"),
            home / ".pip/pip.conf",
            user,
        ]
        site = Path(sys.prefix, "pip.conf")
    # A named file replaces the user's own files.
    return [*files[:-2], site, Path(named)] if named and exists(Path(named)) else [*files, site]
