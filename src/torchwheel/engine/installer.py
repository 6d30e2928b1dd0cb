"""The program that fills the environments that torchwheel keeps: the frontend's own uv or pip.

An environment's own pip would be the one that ensurepip brought, years old in an old Python; it knows neither the
options nor the indexes of today.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.programs import NoAnswer, ask_program, find_program
from torchwheel.versions import at_least

FRONTEND_VARIABLES = frozenset(
    {"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
)
"""Variables that lead an interpreter into the environment of the frontend or the user's shell."""

_OLDEST_PIP = "22.3"
"""The first with ``--python``. Source: https://pip.pypa.io/en/stable/news/#v22-3"""

_SECONDS_TO_ANSWER = 60.0
"""pip imports hundreds of modules before it says its version; from a cold disk that takes long."""

_ANSWER = re.compile(r"(?P<name>pip|uv) (?P<version>\d[\w.]*)")

# With `pip --python` the pip of another environment runs in the interpreter.
_RUNNER = "__pip-runner__.py"
# uv sets it for all that it starts: https://docs.astral.sh/uv/reference/environment/#uv
_UV = "UV"
# pip sets it for all that it starts: https://github.com/pypa/pip/blob/26.3/src/pip/_internal/operations/build/build_tracker.py
_PIP_AT_WORK = "PIP_BUILD_TRACKER"


@dataclass(frozen=True)
class Installer:
    """A pip or uv that can install into another interpreter's environment.

    Attributes:
        command: the words that start it.
        name: ``pip`` or ``uv``.
        version: ``26.3``.
    """

    command: tuple[str, ...]
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def install(self, python: str, requires: Sequence[str], prefix: Path | None = None) -> list[str]:
        """Return the command that installs requirements for an interpreter.

        Args:
            python: the interpreter of the environment.
            prefix: a folder to install into instead, beside what the environment holds.
        """
        if self.name == "uv":
            place = [] if prefix is None else ["--prefix", str(prefix)]
            options = ["--quiet", "--compile-bytecode", "--python", python, *place]
            return [*self.command, "pip", "install", *options, "--", *requires]
        # Without --ignore-installed, pip would remove from the environment what is there in another version.
        place = [] if prefix is None else ["--ignore-installed", "--prefix", str(prefix)]
        options = ["--quiet", "--no-warn-script-location", *place]
        return [
            *self.command,
            "--disable-pip-version-check",
            "--python",
            python,
            "install",
            *options,
            *requires,
        ]


def find_installer(environment: Mapping[str, str]) -> Installer | None:
    """Return the frontend's own installer, else that of this interpreter; None if there is none that is new enough."""
    for command in _candidates(environment):
        installer = read_installer(command, environment)
        if installer is not None and (installer.name == "uv" or at_least(installer.version, _OLDEST_PIP)):
            return installer
    return None


def read_installer(command: Sequence[str], environment: Mapping[str, str]) -> Installer | None:
    """Return the pip or uv that a command starts, with its version; None if it starts none."""
    try:
        answer = ask_program([*command, "--version"], installing_variables(environment), _SECONDS_TO_ANSWER)
    except NoAnswer:
        return None
    match = _ANSWER.match(answer.stdout)
    return Installer(tuple(command), match["name"], match["version"]) if match else None


def installing_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for an installer: without those of the frontend's own run and environment."""
    return {
        name: value
        for name, value in environment.items()
        if name not in FRONTEND_VARIABLES and name != _PIP_AT_WORK and not name.startswith("_PIP_")
    }


def _candidates(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """Return commands that may start a pip or uv, the frontend's own first."""
    parent = _parent_command()
    if environment.get(_UV) and _PIP_AT_WORK not in environment:
        yield [environment[_UV]]
    if len(parent) > 1 and parent[1].endswith(_RUNNER):
        yield parent[:2]
    yield [sys.executable, "-m", "pip"]
    if parent and Path(parent[0]).name.startswith("python"):
        # build and other frontends make an environment without pip, and fill it with their own.
        yield [parent[0], "-m", "pip"]
    if uv := find_program("uv", environment.get("PATH", "")):
        yield [uv]


def _parent_command() -> list[str]:
    """Return the command line of the process that started this one, where the system tells it; else nothing."""
    folder = Path("/proc", str(os.getppid()))
    try:
        words = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0")[:-1]]
        if words and os.sep in words[0]:
            words[0] = os.path.join(os.readlink(folder / "cwd"), words[0])  # noqa: PTH118
    except OSError:
        return []
    return words
