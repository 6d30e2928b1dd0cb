"""The installer for torchwheel's environments, the frontend's own uv or pip: its settings, and what it would install.

pip and uv read their settings themselves; ``installers.toml`` lists what torchwheel knows of them. Read here are those
that decide versions, because an environment's name depends on them. The source of packages is not part of the name:
another mirror has the same releases, and another environment would mean to compile everything again. An environment's
own pip would come from ensurepip, years old in an old Python, without today's options and index formats.

Sources: https://pip.pypa.io/en/stable/topics/configuration/ and
https://docs.astral.sh/uv/concepts/configuration-files/
"""

from __future__ import annotations

import configparser
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from torchwheel.host.programs import NoAnswer, ask_program, find_program
from torchwheel.host.this import home_folder
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.system.toml import read_toml, shipped_toml
from torchwheel.versions import at_least

FRONTEND_VARIABLES = frozenset(
    {"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
)
"""Variables that point an interpreter to the environment of the frontend or the user's shell."""

# pip imports hundreds of modules before it prints its version, and reads the metadata of thirty packages in turn.
_SECONDS_TO_ANSWER, _SECONDS_TO_RESOLVE = 60.0, 300.0
_ANSWER = re.compile(r"(?P<name>pip|uv) (?P<version>\d[\w.]*)")

# What no project's settings decide, as they are for its own environment; the place and the platform have no option.
_UV_USUAL = (
    "--deps", "--prerelease", "if-necessary-or-explicit", "--resolution", "highest",
    "--python-version", platform.python_version(),
)  # fmt: skip
# Instead of what a configuration file says. An empty variable would not do: pip takes it for unset.
_ELSEWHERE = ("--target", "", "--python-version", "")
_LISTS = Path(__file__).with_name("installers.toml")
_SECTIONS = ("global", "install")
_NAMES_A_FILE = re.compile(r"^[ \t]*(?:-[cr]\s*|--(?:constraint|requirement)[ =]\s*)(\S+)", re.MULTILINE)
_MOST_FILES = 100
_UV_CONSTRAINTS, _UV_CONSTRAINT_FILES = "build-constraint-dependencies", "UV_BUILD_CONSTRAINT"
_UV_PLACE_VARIABLES = ("UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX")


@dataclass(frozen=True)
class Installer:
    command: tuple[str, ...]
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @contextmanager
    def install_command(
        self, requires: Sequence[str], python: str, prefix: Path | None, environment: Mapping[str, str]
    ) -> Iterator[tuple[list[str], dict[str, str]]]:
        """Yield the command that installs into the interpreter's environment, or a prefix, and its variables."""
        # Also for the environment itself, because a configuration file may have a prefix.
        place = ["--prefix", str(prefix or Path(python).parent.parent)]
        if self.name == "uv":
            with _uv_constraints(environment) as constraints:
                own = ["--quiet", "--compile-bytecode", "--no-require-hashes", "--python", python]
                options = [*own, *_UV_USUAL, *constraints, *place]
                yield [*self.command, "pip", "install", *options, "--", *requires], _uv_variables(environment)
            return
        # Not --quiet, with which pip names no constraint of a conflict.
        quiet = ["--disable-pip-version-check", "--progress-bar", "off", "--no-warn-script-location"]
        # Without --ignore-installed, pip would uninstall other versions from the environment.
        options = ["--no-input", *quiet, *_ELSEWHERE, *place, *(["--ignore-installed"] if prefix else [])]
        yield [*self.command, "--python", python, "install", *options, *requires], pip_variables(environment)

    @contextmanager
    def resolve_command(
        self, wanted: Path, environment: Mapping[str, str]
    ) -> Iterator[tuple[list[str], dict[str, str]]]:
        """Yield the command that tells what a file of requirements comes to, uv in a ``.txt``, and its variables."""
        if self.name == "uv":
            with _uv_constraints(environment) as constraints:
                # A configuration file may name a file of the user's.
                output = ["--output-file", str(wanted.with_suffix(".txt")), "--no-universal"]
                own = ["--quiet", "--no-header", "--no-annotate", "--python", sys.executable]
                options = [*own, *output, *_UV_USUAL, *constraints]
                yield [*self.command, "pip", "compile", *options, str(wanted)], _uv_variables(environment)
            return
        own = ["--disable-pip-version-check", "--dry-run", "--ignore-installed", "--quiet", "--no-input"]
        options = [*own, *_ELSEWHERE, "--report", "-", "-r", str(wanted)]
        yield [*self.command, "install", *options], pip_variables(environment)


@contextmanager
def _uv_constraints(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield uv's options for the build constraints, which it has itself for what it builds alone."""
    with tempfile.TemporaryDirectory(prefix="torchwheel-uv-") as folder:
        own = Path(folder, "constraints.txt")
        found = (table.get(_UV_CONSTRAINTS) for table in _uv_tables(environment))
        lines = (str(line) for lines in found if isinstance(lines, list) for line in lines)
        own.write_text("\n".join(lines), encoding="utf-8")
        files = (*_uv_constraint_files(environment), str(own))
        yield [word for file in files for word in ("--constraints", file)]


def find_installer(environment: Mapping[str, str]) -> Installer | None:
    uv = frontend_uv(environment)
    for command in [[uv]] if uv else _pip_commands():
        installer = read_installer(command, environment)
        # The first pip with --python: https://pip.pypa.io/en/stable/news/#v22-3
        if installer is not None and (installer.name == "uv" or at_least(installer.version, "22.3")):
            return installer
    return None


def read_installer(command: Sequence[str], environment: Mapping[str, str]) -> Installer | None:
    try:
        answer = ask_program([*command, "--version"], pip_variables(environment), _SECONDS_TO_ANSWER)
    except NoAnswer:
        return None
    match = _ANSWER.match(answer.stdout)
    return Installer(tuple(command), match["name"], match["version"]) if match else None


def installing_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for an installer, without those of the frontend's own run and environment."""
    return {
        name: value
        for name, value in environment.items()
        # With _PIP_RUNNING_IN_SUBPROCESS, pip ignores --python and installs into its own environment. A warning that is
        # an error for the user's programs would end pip, whose older releases use deprecated functions.
        if name not in (*FRONTEND_VARIABLES, "PYTHONWARNINGS") and not name.startswith("_PIP_")
    }


def _pip_commands() -> Iterator[list[str]]:
    """Yield commands that may start a pip, the frontend's own first."""
    parent = _parent_command()
    # `pip --python` runs the pip of another environment in the interpreter.
    if len(parent) > 1 and parent[1].endswith("__pip-runner__.py"):
        yield parent[:2]
    # Isolated, because the current folder may have a pip.py.
    yield [sys.executable, "-I", "-m", "pip"]
    if parent and Path(parent[0]).name.startswith("python"):
        # build and other frontends create an environment without pip, and fill it with their own.
        yield [parent[0], "-I", "-m", "pip"]


def _parent_command() -> list[str]:
    folder = Path("/proc", str(os.getppid()))
    try:
        words = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0")[:-1]]
        # A relative path begins in the parent's working folder, which may differ from this process's.
        if words and os.sep in words[0]:
            words[0] = os.path.join(os.readlink(folder / "cwd"), words[0])  # noqa: PTH118
    except OSError:
        return []
    return words


def ask_index(requires: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return name -> version of what an isolated build of this Python would install today."""
    # uv reads metadata in parallel, and of an index without metadata files parts of wheels, which pip downloads whole.
    uv = find_program("uv", environment.get("PATH"))
    installer = (read_installer([uv], environment) if uv else None) or find_installer(environment)
    if installer is None:
        raise refusal("index-not-asked")
    with tempfile.TemporaryDirectory(prefix="torchwheel-index-") as folder:
        wanted = Path(folder, "requirements.in")
        wanted.write_text("\n".join(requires) + "\n", encoding="utf-8")
        with installer.resolve_command(wanted, environment) as (command, variables):
            try:
                answer = ask_program(command, variables, _SECONDS_TO_RESOLVE)
            except NoAnswer as failure:
                raise refusal("index-not-asked/no-answer", installer=installer, reason=failure) from failure
        pinned = read_beginning(wanted.with_suffix(".txt"))
    if answer.returncode != 0:
        raise refusal(
            "index-has-no-answer",
            requirements=", ".join(requires),
            installer=installer,
            reason=(answer.stderr or answer.stdout).strip(),
        )
    if installer.name == "uv":
        lines = (line.partition(";")[0].split() for line in pinned.splitlines())
        pins = (words[0].partition("==") for words in lines if words)
        return {canonicalize_name(name): version for name, equals, version in pins if equals}
    found = (entry["metadata"] for entry in json.loads(answer.stdout)["install"])
    return {canonicalize_name(one["name"]): one["version"] for one in found}


def frontend_uv(environment: Mapping[str, str]) -> str | None:
    """Return the uv that is the frontend or created this environment; None if uv did neither."""
    # pip, which sets it for its child processes, may be the frontend in an environment that uv created.
    if "PIP_BUILD_TRACKER" in environment:
        return None
    # uv sets it for its child processes: https://docs.astral.sh/uv/reference/environment/#uv
    if started_by := environment.get("UV"):
        return started_by
    # uv names itself in the environments that it creates.
    made_by = read_beginning(Path(sys.prefix, "pyvenv.cfg")).splitlines()
    if any(line.startswith("uv = ") for line in made_by):
        return find_program("uv", environment.get("PATH", ""))
    return None


def version_choices(environment: Mapping[str, str]) -> list[str]:
    """Return the installer's settings that affect versions, and the content of the constraint files."""
    if frontend_uv(environment):
        return _uv_version_choices(environment)
    settings, names = pip_settings(environment), shipped_toml(_LISTS)["pip"]["versions"]
    return [
        *_read_constraints(_pip_constraints(settings).split()),
        *(f"--{name}={settings[name]}" for name in names if name in settings),
    ]


def has_another_index(environment: Mapping[str, str]) -> bool:
    """Whether pip or uv is configured to take packages from elsewhere than PyPI."""
    tables = [pip_settings(environment), *_uv_tables(environment)]
    return any(table.get(name) for table in tables for name in shipped_toml(_LISTS)["places"]) or any(
        value and name.startswith(_UV_PLACE_VARIABLES) for name, value in environment.items()
    )


def _read_constraints(constraints: Iterable[str]) -> Iterator[str]:
    """Yield the content of constraint files and of those that they include; the name of an unreadable one."""
    pending, seen = list(constraints), set[str]()
    while pending and len(seen) < _MOST_FILES:
        name = pending.pop(0)
        if name not in seen:
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
    """Return the environment for a pip that fills one of torchwheel's environments, which outranks pip's files.

    Build constraints replace other constraints, as in pip's own isolated environments.
    """
    lists, settings = shipped_toml(_LISTS)["pip"], pip_settings(environment)
    own: dict[str, str] = {**lists["fixed"]}
    if constraints := _pip_constraints(settings):
        own["PIP_CONSTRAINT"] = constraints
    # pip looks for no keyring where it may not ask, and the new environment has none to import. build does the same.
    if "keyring-provider" not in settings and find_program("keyring", environment.get("PATH", "")):
        own["PIP_KEYRING_PROVIDER"] = "subprocess"
    kept = installing_variables(environment)
    return {**{name: value for name, value in kept.items() if name not in lists["dropped"]}, **own}


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
    named = environment.get("PIP_CONFIG_FILE")
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


def _uv_variables(environment: Mapping[str, str]) -> dict[str, str]:
    dropped = shipped_toml(_LISTS)["uv"]["dropped"]
    return {name: value for name, value in installing_variables(environment).items() if name not in dropped}


def _uv_constraint_files(environment: Mapping[str, str]) -> list[str]:
    return environment.get(_UV_CONSTRAINT_FILES, "").split()


def _uv_version_choices(environment: Mapping[str, str]) -> list[str]:
    lists = shipped_toml(_LISTS)["uv"]
    tables = [*_uv_tables(environment), {name: environment.get(name) for name in lists["variables"]}]
    return [
        *_read_constraints(_uv_constraint_files(environment)),
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
