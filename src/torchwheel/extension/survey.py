"""Looking at the world once for a project's extensions: settings, PyTorch, toolkit, machine and sources."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torchwheel.engine.venv import install_toolkit_packages
from torchwheel.extension.compile.python_abi import this_python_build
from torchwheel.extension.inputs import Inputs
from torchwheel.extension.model import Extension
from torchwheel.extension.sources import uses_cuda
from torchwheel.extension.torch_install.installed_torch import (
    InstalledTorch,
    installed_torch,
    pybind11_macros,
)
from torchwheel.extension.torch_install.torch_architectures import torch_architectures
from torchwheel.hardware.detect import detect_gpus
from torchwheel.host.compilers import compiler_version
from torchwheel.host.model import Host
from torchwheel.host.this import this_host
from torchwheel.settings import Settings, load_settings
from torchwheel.survey import ConfigSettings, cache_folder, package_folders
from torchwheel.toolkit.discover import find_candidates, torch_headers
from torchwheel.toolkit.needs import ExtensionNeeds
from torchwheel.toolkit.pypi import compiler_packages
from torchwheel.toolkit.select import Selection, select_toolkit

# In the order in which torch.utils.cpp_extension 2.14.1 looks for them, which also reads the variable.
_COMPILER_CACHES = ("ccache", "sccache")
_NO_COMPILER_CACHE = "TORCH_NO_COMPILER_WRAPPER"


def survey_extensions(
    project: Path,
    extensions: Sequence[Extension],
    config_settings: ConfigSettings,
    environment: Mapping[str, str],
    *,
    install_toolkit: bool = False,
) -> Inputs:
    """Read everything that the plan of a project's extensions is made from.

    Args:
        project: the project's folder, absolute.
        extensions: what it describes.
        config_settings: the frontend's ``-C`` values.
        environment: the environment variables.
        install_toolkit: whether to install the packages of a toolkit where none serves. Frontends that were asked
            to need not have: pip takes what a requirement's extras bring for installed when their package is.

    Raises:
        TorchwheelError: the settings or the installed PyTorch cannot be read, or it is not installed.
    """

    host = this_host(environment)
    settings = project_settings(project, config_settings, environment, host)
    torch = installed_torch()
    cuda = torch.cuda is not None and any(uses_cuda(extension) for extension in extensions)
    own = torch_architectures(torch).architectures if cuda and settings.architectures is None else None
    choice = toolkit_for(settings, torch.cuda, extensions, host, environment) if cuda and torch.cuda else None
    if install_toolkit and choice and choice.to_install and choice.toolkit and torch.cuda:
        install_toolkit_packages(
            cache_folder(environment),
            choice.toolkit.version,
            choice.to_install,
            host.python.interpreter_tag,
            environment,
        )
        choice = toolkit_for(settings, torch.cuda, extensions, host, environment)
    cxx = host.compiler("cxx")
    return Inputs(
        project=project,
        settings=settings,
        host=host,
        python=this_python_build(),
        torch=torch,
        pybind11_macros=pybind11_macros(torch),
        torch_architectures=own,
        toolkit=choice.toolkit if choice and choice.there else None,
        toolkit_packages=choice.site_packages if choice else None,
        toolkit_requirements=choice.to_install if choice else (),
        toolkit_findings=choice.findings if choice else (),
        extensions=tuple(extensions),
        missing_sources=_missing(project, extensions),
        compiler_versions={cxx.path: compiler_version(cxx)} if cxx is not None else {},
        launcher=_launcher(host, environment),
        cache=cache_folder(environment),
    )


def project_settings(
    project: Path, config_settings: ConfigSettings, environment: Mapping[str, str], host: Host
) -> Settings:
    """The settings of a downstream project.

    Raises:
        TorchwheelError: they are wrong; everything that is wrong is in it.
    """

    def detect() -> tuple[object, ...]:
        return detect_gpus(environment)

    return load_settings(project, config_settings, environment, host, detect=detect)  # type: ignore[arg-type]


def builds_cuda(settings: Settings, torch: InstalledTorch) -> bool:
    """Whether sources that only a build with CUDA has are compiled: PyTorch has CUDA, and the target is not the CPU."""
    return torch.cuda is not None and not settings.is_cpu


def toolkit_for(
    settings: Settings,
    torch_cuda: str,
    extensions: Sequence[Extension],
    host: Host,
    environment: Mapping[str, str],
) -> Selection:
    """The toolkit that compiles for what is asked for; PyTorch's own architectures follow from it, not it from them.

    Raises:
        TorchwheelError: ``cuda-path`` names no toolkit.
    """

    own = (own.architectures for extension in extensions for own in extension.source_architectures)
    lists = [one for one in (settings.architectures, *own) if one is not None]
    architectures = [architecture for one in lists for architecture in one.architectures]
    cache = cache_folder(environment)
    candidates = find_candidates(
        settings,
        host,
        environment,
        package_folders(host, cache, settings),
        cache,
        compiler_packages(),
        torch_headers(),
    )
    return select_toolkit(ExtensionNeeds(settings, host, tuple(architectures), torch_cuda), candidates)


def _missing(project: Path, extensions: Iterable[Extension]) -> frozenset[str]:
    named = {source for extension in extensions for source in extension.sources}
    return frozenset(source for source in named if not (project / source).is_file())


def _launcher(host: Host, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The compiler cache: the one that CXX names, else the first on PATH."""
    cxx = host.compiler("cxx")
    if cxx is not None and cxx.launcher:
        return cxx.launcher
    if environment.get(_NO_COMPILER_CACHE, "0") not in ("", "0"):
        return ()
    found = (shutil.which(name, path=environment.get("PATH")) for name in _COMPILER_CACHES)
    return next(((path,) for path in found if path is not None), ())
