"""The CMake project that scikit-build-core is given for ``[[tool.torchwheel.extension]]`` tables."""

from __future__ import annotations

import re
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.extension.model import ExtensionPlan, StepKind

# Where scikit-build-core looks for a package of the project's name, and where packages of other names are looked for.
_PARENTS = ("src", "python", "")


def cmake_project_text(plan: ExtensionPlan) -> str:
    """The CMakeLists.txt."""
    kinds = {step.kind for extension in plan.extensions for step in extension.steps}
    languages = "C CXX" if StepKind.COMPILE_C in kinds else "CXX"
    return (
        "# Made by torchwheel for [[tool.torchwheel.extension]] of a pyproject.toml.\n"
        "cmake_minimum_required(VERSION 3.20...4.0)\n"
        f"project(${{SKBUILD_PROJECT_NAME}} LANGUAGES {languages})\n"
        "find_package(TorchWheel REQUIRED)\n"
        "torchwheel_add_project_extensions()\n"
    )


def wheel_packages(plan: ExtensionPlan, project: Path) -> tuple[str, ...]:
    """The packages to put into the wheel, for ``wheel.packages``; empty to leave it to scikit-build-core.

    It looks for a package of the project's name alone; extensions may lie in packages of other names.
    """
    name = read_toml(project / "pyproject.toml").get("project", {}).get("name", "")
    names = dict.fromkeys([re.sub(r"[-_.]+", "_", str(name)).lower()])
    names.update(
        (e.extension.name.partition(".")[0], None) for e in plan.extensions if "." in e.extension.name
    )
    found = [folder for package in names if (folder := _package(package, project))]
    return tuple(found)


def _package(name: str, project: Path) -> str | None:
    folders = (f"{parent}/{name}".lstrip("/") for parent in _PARENTS)
    return next((folder for folder in folders if name and (project / folder).is_dir()), None)
