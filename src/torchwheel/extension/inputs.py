"""What the plan of a project's extensions is made from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchwheel.extension.compile.python_abi import PythonBuild
from torchwheel.extension.model import Extension
from torchwheel.extension.torch_install.installed_torch import InstalledTorch
from torchwheel.findings import Finding, Severity
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.model import Host
from torchwheel.settings import Settings
from torchwheel.toolkit.model import Toolkit

_DIGITS = 12
_SEVERITIES = tuple(Severity)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Everything that the plan of a project's extensions is made from.

    Attributes:
        project: the project's folder, absolute.
        settings: what was asked for.
        host: the machine that the plan is for.
        python: the Python to compile for.
        torch: the installed PyTorch.
        pybind11_macros: what makes a module's pybind11 find PyTorch's: name and value.
        torch_architectures: what its device code was built for; None for none, or where nobody knows.
        toolkit: the CUDA toolkit; None where none is needed or none was found.
        toolkit_packages: the folder of installed packages that it must be assembled of; None for one that is there.
        toolkit_requirements: packages that must be installed for there to be a toolkit.
        toolkit_findings: what there is to say about the choice.
        extensions: what the project describes.
        missing_sources: sources that do not exist.
        compiler_versions: of the compilers that were asked: path -> version.
        launcher: the compiler cache's program, or nothing.
        cache: the folder that builds are kept in.
        below: the folder in the build folder that everything lies in; empty for the build folder itself.
    """

    project: Path
    settings: Settings
    host: Host
    python: PythonBuild
    torch: InstalledTorch
    pybind11_macros: tuple[tuple[str, str], ...]
    torch_architectures: ArchitectureList | None
    toolkit: Toolkit | None
    toolkit_packages: Path | None
    toolkit_requirements: tuple[str, ...]
    toolkit_findings: tuple[Finding, ...]
    extensions: tuple[Extension, ...]
    missing_sources: Collection[str]
    compiler_versions: Mapping[str, str]
    launcher: tuple[str, ...]
    cache: Path
    below: str = ""
