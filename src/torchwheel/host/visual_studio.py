"""Find Visual Studio and the environment that its compilers need."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.programs import NoAnswer, ask_program
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.paths import is_file
from torchwheel.versions import major_minor

_TARGET = "VSCMD_ARG_TGT_ARCH"
"""Set by vcvarsall.bat: the architecture of the environment."""
_SECONDS = 120.0
"""vcvarsall.bat starts a dozen programs, and a virus scanner may check each."""


@dataclass(frozen=True)
class VisualStudio:
    """An installed Visual Studio, or its build tools.

    Attributes:
        version: its version, ``"17.11"``.
    """

    path: str
    version: str


def msvc_architecture(platform_tag: str) -> str:
    """Microsoft's name of a Python's processor: ``x64`` for ``win_amd64``, also on an Arm machine."""
    return "arm64" if platform_tag == "win_arm64" else "x64"


def visual_studio(environment: Mapping[str, str]) -> VisualStudio:
    """Find the newest Visual Studio with C++ tools, using Microsoft's vswhere (https://github.com/microsoft/vswhere).

    Empty if there is none.

    Raises:
        NoAnswer: vswhere does not answer.
    """
    program_files = environment.get("ProgramFiles(x86)") or environment.get("PROGRAMFILES(X86)") or ""
    vswhere = Path(program_files) / "Microsoft Visual Studio" / "Installer" / "vswhere.exe"
    if not program_files or not is_file(vswhere):
        return VisualStudio("", "")
    tools = "Microsoft.VisualStudio.Component.VC.Tools.x86.x64"
    # Without "-products *", vswhere ignores the Build Tools.
    question = [str(vswhere), "-latest", "-products", "*", "-requires", tools, "-property"]
    path = ask_program([*question, "installationPath"]).stdout.strip()
    version = ask_program([*question, "installationVersion"]).stdout.strip()
    return VisualStudio(path, major_minor(version))


def developer_environment(environment: Mapping[str, str], platform_tag: str) -> Mapping[str, str]:
    """Add the variables of vcvarsall.bat, if it has not run yet and a Visual Studio is found.

    Args:
        platform_tag: the platform to compile for, ``win_amd64``.

    Raises:
        TorchwheelError: Visual Studio's batch file fails.
    """
    if environment.get(_TARGET):
        return environment
    try:
        studio = visual_studio(environment)
        if not studio.path:
            return environment
        batch = Path(studio.path) / "VC" / "Auxiliary" / "Build" / "vcvarsall.bat"
        # Pass paths in variables because cmd has its own quoting rules. Python prints the variables in any encoding.
        variables = {**environment, "TORCHWHEEL_VCVARSALL": str(batch), "TORCHWHEEL_PYTHON": sys.executable}
        script = Path(__file__).with_name("developer_environment.bat")
        # After "call" cmd does not strip the quotes of a path (cmd /?).
        # With /d cmd does not run the commands of its registry key AutoRun.
        command = [environment.get("COMSPEC", "cmd.exe"), "/d", "/c", "call", str(script)]
        answer = ask_program([*command, msvc_architecture(platform_tag)], variables, _SECONDS)
        # vcvarsall.bat prints a banner first.
        found = json.loads("{" + answer.stdout.rpartition("\n{")[2])
    except (NoAnswer, ValueError) as error:
        raise TorchwheelError(_no_environment(str(error))) from None
    if _TARGET not in found:
        raise TorchwheelError(_no_environment(f"{batch} did not set {_TARGET}"))
    return {name: value for name, value in found.items() if name not in variables.keys() - environment.keys()}


def _no_environment(why: str) -> Problem:
    return Problem.of("no-developer-environment/setup", why=why)
