"""What pip is set up to choose versions by: variables, its configuration files, and the constraints that both name.

Where it takes packages from does not count: another mirror has the same releases, and with another environment all
would be compiled again.

Source: https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchwheel._files import beginning
from torchwheel.host.this import home_folder

_CHOOSES = ("constraint", "no-binary", "only-binary", "pre", "prefer-binary", "uploaded-prior-to")
_SECTIONS = ("global", "install")
_NAMES_A_FILE = re.compile(r"^[ \t]*(?:-[cr]\s*|--(?:constraint|requirement)[ =]\s*)(\S+)", re.MULTILINE)
_MOST_FILES = 100


def version_choices(environment: Mapping[str, str]) -> list[str]:
    """The settings of pip that versions depend on, as texts, with what is in the files of constraints."""
    chosen: dict[str, str] = {}
    for file in _configuration_files(environment):
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
            for section in filter(parser.has_section, _SECTIONS):
                chosen |= {key: value for key, value in parser.items(section) if key in _CHOOSES}
        except (configparser.Error, OSError, ValueError):
            # pip itself says what is wrong with it.
            continue
    for key in _CHOOSES:
        if value := environment.get(f"PIP_{key.upper().replace('-', '_')}"):
            chosen[key] = value
    constraints = chosen.pop("constraint", "").split()
    return [*_contents(constraints), *(f"--{key}={value}" for key, value in sorted(chosen.items()) if value)]


def _contents(constraints: list[str]) -> Iterator[str]:
    """What is in files of constraints and in those that they name; the name of what cannot be read."""
    pending, seen = list(constraints), set[str]()
    while pending and len(seen) < _MOST_FILES:
        name = pending.pop(0)
        if name in seen:
            continue
        seen.add(name)
        text = beginning(Path(name))
        yield text or name
        pending += [str(Path(name).parent / other) for other in _NAMES_A_FILE.findall(text)]


def _configuration_files(environment: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, the one that counts most last."""
    named = environment.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(home_folder(environment))
    if sys.platform == "win32":
        folders = [environment.get("PROGRAMDATA", ""), str(home), environment.get("APPDATA", "")]
        files = [Path(folder, "pip", "pip.ini") for folder in folders if folder]
    else:
        user = Path(environment.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
        if sys.platform == "darwin" and (own := home / "Library/Application Support/pip").is_dir():
            user = own / "pip.conf"
        shared = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
        files = [
            *(Path(one, "pip", "pip.conf") for one in shared),
            Path("/etc/pip.conf"),
            home / ".pip/pip.conf",
            user,
        ]
    # The user's own files do not count beside the one that is named.
    return [*files[:-2], Path(named)] if named and Path(named).exists() else files
