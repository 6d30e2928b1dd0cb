"""The installer for torchwheel's environments, the frontend's own uv or pip, and what it would install today.

An environment's own pip would come from ensurepip, years old in an old Python, without today's options and index
formats.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.host.installer_settings import (
    frontend_uv,
    pip_variables,
    uv_constraint_files,
    uv_constraints,
    uv_variables,
)
from torchwheel.host.programs import NoAnswer, ask_program, find_program
from torchwheel.reporting.errors import refusal
from torchwheel.system.files import read_beginning
from torchwheel.versions import at_least

FRONTEND_VARIABLES = frozenset(
    {"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
)
"""Variables that point an interpreter to the environment of the frontend or the user's shell."""

_OLDEST_PIP = "22.3"
"""The first with ``--python``. Source: https://pip.pypa.io/en/stable/news/#v22-3"""

_SECONDS_TO_ANSWER = 60.0
"""pip imports hundreds of modules before it prints its version, which takes long from a cold disk."""

_ANSWER = re.compile(r"(?P<name>pip|uv) (?P<version>\d[\w.]*)")

# What no project's settings decide, as they are for its own environment; the place and the platform have no option.
_UV_USUAL = (
    "--deps", "--prerelease", "if-necessary-or-explicit", "--resolution", "highest",
    "--python-version", platform.python_version(),
)  # fmt: skip
# Instead of what a configuration file says. An empty variable would not do: pip takes it for unset.
_ELSEWHERE = ("--target", "", "--python-version", "")

# `pip --python` runs the pip of another environment in the interpreter.
_RUNNER = "__pip-runner__.py"


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
        """Yield the command that installs requirements, and its variables.

        Args:
            prefix: another folder than the interpreter's environment.
        """
        # Also for the environment itself, because a configuration file may have a prefix.
        place = ["--prefix", str(prefix or Path(python).parent.parent)]
        variables = installing_variables(environment)
        if self.name == "uv":
            with _uv_constraints(environment) as constraints:
                own = ["--quiet", "--compile-bytecode", "--no-require-hashes", "--python", python]
                options = [*own, *_UV_USUAL, *constraints, *place]
                yield [*self.command, "pip", "install", *options, "--", *requires], uv_variables(variables)
            return
        # Not --quiet, with which pip names no constraint of a conflict.
        quiet = ["--disable-pip-version-check", "--progress-bar", "off", "--no-warn-script-location"]
        # Without --ignore-installed, pip would uninstall other versions from the environment.
        options = ["--no-input", *quiet, *_ELSEWHERE, *place, *(["--ignore-installed"] if prefix else [])]
        yield [*self.command, "--python", python, "install", *options, *requires], pip_variables(variables)

    @contextmanager
    def resolve_command(
        self, wanted: Path, environment: Mapping[str, str]
    ) -> Iterator[tuple[list[str], dict[str, str]]]:
        """Yield the command that tells what a file of requirements comes to, and its variables.

        pip prints it, and uv writes it to the file's name with ``.txt``.
        """
        variables = installing_variables(environment)
        if self.name == "uv":
            with _uv_constraints(environment) as constraints:
                # A configuration file may name a file of the user's.
                output = ["--output-file", str(wanted.with_suffix(".txt")), "--no-universal"]
                own = ["--quiet", "--no-header", "--no-annotate", "--python", sys.executable]
                options = [*own, *output, *_UV_USUAL, *constraints]
                yield [*self.command, "pip", "compile", *options, str(wanted)], uv_variables(variables)
            return
        own = ["--disable-pip-version-check", "--dry-run", "--ignore-installed", "--quiet", "--no-input"]
        options = [*own, *_ELSEWHERE, "--report", "-", "-r", str(wanted)]
        yield [*self.command, "install", *options], pip_variables(variables)


@contextmanager
def _uv_constraints(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield uv's options for the build constraints, which it has itself for what it builds alone."""
    with tempfile.TemporaryDirectory(prefix="torchwheel-uv-") as folder:
        own = Path(folder, "constraints.txt")
        own.write_text("\n".join(uv_constraints(environment)), encoding="utf-8")
        files = (*uv_constraint_files(environment), str(own))
        yield [word for file in files for word in ("--constraints", file)]


def find_installer(environment: Mapping[str, str]) -> Installer | None:
    uv = frontend_uv(environment)
    for command in [[uv]] if uv else _pip_commands():
        installer = read_installer(command, environment)
        if installer is not None and (installer.name == "uv" or at_least(installer.version, _OLDEST_PIP)):
            return installer
    return None


def read_installer(command: Sequence[str], environment: Mapping[str, str]) -> Installer | None:
    try:
        answer = ask_program(
            [*command, "--version"], pip_variables(installing_variables(environment)), _SECONDS_TO_ANSWER
        )
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
    if len(parent) > 1 and parent[1].endswith(_RUNNER):
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


_SECONDS = 300.0
"""pip reads the metadata of thirty packages one after the other, from an index that may be far away."""


def ask_index(requires: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return name -> version of what an isolated build of this Python would install today.

    uv is asked where it is installed: it reads metadata in parallel, and only parts of wheels whose index has no
    metadata files, which pip downloads whole.
    """
    uv = find_program("uv", environment.get("PATH"))
    installer = (read_installer([uv], environment) if uv else None) or find_installer(environment)
    if installer is None:
        raise refusal("index-not-asked")
    with tempfile.TemporaryDirectory(prefix="torchwheel-index-") as folder:
        wanted = Path(folder, "requirements.in")
        wanted.write_text("\n".join(requires) + "\n", encoding="utf-8")
        with installer.resolve_command(wanted, environment) as (command, variables):
            try:
                answer = ask_program(command, variables, _SECONDS)
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
