"""Reading everything that the plan of a project's extensions is made from, once in each process."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from torchwheel.engine.venv import install_toolkit_packages
from torchwheel.extension.model import Extension, ExtensionInputs
from torchwheel.extension.naming import this_python_build
from torchwheel.extension.sources import uses_cuda
from torchwheel.extension.torch_install.installed_torch import (
    InstalledTorch,
    installed_torch,
    pybind11_macros,
)
from torchwheel.extension.torch_install.torch_architectures import torch_architectures
from torchwheel.hardware.detect import detect_gpus
from torchwheel.host.compilers import compiler_version
from torchwheel.host.environments import import_folders
from torchwheel.host.model import Host
from torchwheel.host.this import this_host
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.project import Project
from torchwheel.survey import BuildRequest, cache_folder
from torchwheel.toolkit.discover import find_candidates, torch_headers
from torchwheel.toolkit.needs import ExtensionNeeds
from torchwheel.toolkit.pypi import compiler_packages
from torchwheel.toolkit.select import Selection, select_toolkit

# In the order in which torch.utils.cpp_extension 2.14.1 looks for them, which also reads the variable.
_COMPILER_CACHES = ("ccache", "sccache")
_NO_COMPILER_CACHE = "TORCH_NO_COMPILER_WRAPPER"


@dataclass(frozen=True, eq=False)
class ExtensionProject:
    """A project with extensions, and what is read for it.

    Attributes:
        request: its project is absolute.
    """

    request: BuildRequest
    host: Host
    settings: Settings

    @property
    def folder(self) -> Path:
        return self.request.project

    @property
    def environment(self) -> Mapping[str, str]:
        return self.request.environment

    @property
    def pyproject(self) -> Project:
        return self.settings.project or Project(self.folder)

    @property
    def builds_folder(self) -> Path:
        """The folder that build folders of extensions are kept in."""
        chosen = self.settings.build_dir
        return Path(chosen) if chosen else cache_folder(self.environment) / "extensions"

    @cached_property
    def torch(self) -> InstalledTorch:
        """The installed PyTorch, read when it is first needed: an sdist needs none.

        Raises:
            TorchwheelError: there is none, or it cannot be read.
        """
        return installed_torch()

    @property
    def builds_cuda(self) -> bool:
        """Whether sources that only a build with CUDA has are compiled."""
        return self.torch.cuda is not None and not self.settings.is_cpu


def read_extension_project(request: BuildRequest) -> ExtensionProject:
    """Read the settings of a project with extensions, and this machine.

    Raises:
        TorchwheelError: the settings are wrong; everything that is wrong is in it.
    """
    host = this_host(request.environment)

    settings = load_settings(
        request.project,
        request.config_settings,
        request.environment,
        host,
        detect=lambda: detect_gpus(request.environment),
    )
    return ExtensionProject(request, host, settings)


def survey_extensions(
    project: ExtensionProject,
    extensions: Sequence[Extension],
    *,
    missing_toolkit: Literal["report", "install", "assume"] = "report",
    below: str = "",
) -> ExtensionInputs:
    """Read everything that the plan of a project's extensions is made from.

    Args:
        missing_toolkit: what to do where a toolkit must be installed first: a build installs it, since frontends
            need not have (pip takes what a requirement's extras bring for installed when their package
            is); metadata needs nothing but its release.
        below: see :class:`ExtensionInputs`.

    Raises:
        TorchwheelError: the installed PyTorch cannot be read, or it is not installed; ``cuda-path`` is no toolkit.
    """
    host, settings, torch = project.host, project.settings, project.torch
    cuda = torch.cuda is not None and any(uses_cuda(extension) for extension in extensions)
    choice = extension_toolkit(project, extensions) if cuda else None
    if missing_toolkit == "install" and choice and choice.to_install and choice.toolkit:
        install_toolkit_packages(
            cache_folder(project.environment),
            choice.toolkit.version,
            choice.to_install,
            host.python.interpreter_tag,
            project.environment,
        )
        choice = extension_toolkit(project, extensions)
    assumed = missing_toolkit == "assume" and choice is not None and bool(choice.to_install)
    cxx = host.compiler("cxx")
    named = {source for extension in extensions for source in extension.sources}
    return ExtensionInputs(
        project=project.folder,
        settings=settings,
        host=host,
        python=this_python_build(),
        torch=torch,
        pybind11_macros=pybind11_macros(torch),
        torch_architectures=(torch_architectures(torch) if cuda and settings.arch is None else None),
        toolkit=choice.toolkit if choice and (choice.there or assumed) else None,
        toolkit_packages=choice.site_packages if choice else None,
        toolkit_requirements=choice.to_install if choice and not assumed else (),
        toolkit_findings=choice.findings if choice else (),
        extensions=tuple(extensions),
        missing_sources=frozenset(source for source in named if not (project.folder / source).is_file()),
        compiler_versions={cxx.path: compiler_version(cxx)} if cxx is not None else {},
        launcher=_launcher(host, project.environment),
        builds_folder=project.builds_folder,
        below=below,
    )


def extension_toolkit(project: ExtensionProject, extensions: Sequence[Extension] = ()) -> Selection | None:
    """The toolkit that compiles for what is requested; PyTorch's own architectures follow from it, not it from them.

    Returns:
        The choice; None for a PyTorch without CUDA.

    Raises:
        TorchwheelError: ``cuda-path`` names no toolkit.
    """
    if project.torch.cuda is None:
        return None
    own = (own.architectures for extension in extensions for own in extension.source_architectures)
    lists = [one for one in (project.settings.arch, *own) if one is not None]
    architectures = tuple(architecture for one in lists for architecture in one.architectures)
    candidates = find_candidates(
        project.settings,
        project.host,
        project.environment,
        cache_folder(project.environment),
        import_folders(None),
        compiler_packages(),
        torch_headers(),
    )
    needs = ExtensionNeeds(project.settings, project.host, architectures, project.torch.cuda)
    return select_toolkit(needs, candidates)


def _launcher(host: Host, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The compiler cache: the one that CXX names, else the first on PATH."""
    cxx = host.compiler("cxx")
    if cxx is not None and cxx.launcher:
        return cxx.launcher
    if environment.get(_NO_COMPILER_CACHE, "0") not in ("", "0"):
        return ()
    found = (shutil.which(name, path=environment.get("PATH")) for name in _COMPILER_CACHES)
    return next(((path,) for path in found if path is not None), ())
