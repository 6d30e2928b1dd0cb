"""Looking at the world once: the settings, the tree, the machine and its toolkits, as inputs of a plan."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platformdirs import PlatformDirs

from torchwheel.engine.venv import (
    environment_folder,
    interpreter_in,
    is_short_lived,
    packages_environment,
    site_packages,
)
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.detect import detect_gpus
from torchwheel.host import described_host, this_host
from torchwheel.host.model import Host
from torchwheel.plan.make import Inputs
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.project import named_source, read_project
from torchwheel.toolkit.discover import assumed_toolkit, discover_toolkits, toolkit_at
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.packages import packages
from torchwheel.toolkit.pypi import packaged_toolkit
from torchwheel.toolkit.read import read_toolkit
from torchwheel.toolkit.sources import PackagedToolkit, installable
from torchwheel.tree import read_tree
from torchwheel.tree.build_system import read_build_system, read_pyproject
from torchwheel.tree.model import Generation, Tree
from torchwheel.versions import requirements_met

ConfigSettings = Mapping[str, "str | list[str] | bool"]


@dataclass(frozen=True)
class BuildRequest:
    """One build, plan or question, before anything is read.

    Attributes:
        project: the folder with the pyproject.toml: a wrapper project, or a PyTorch tree.
        config_settings: the frontend's ``-C`` values, or what the command line made of its options.
        environment: the environment variables.
        in_place: build in the tree itself (an adopted tree, an editable install).
        platform: plan for this platform tag instead of this machine.
        python: the interpreter's path on that platform.
    """

    project: Path
    config_settings: ConfigSettings
    environment: Mapping[str, str]
    in_place: bool = False
    platform: str | None = None
    python: str = ""


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder that builds and environments are kept in: ``TORCHWHEEL_CACHE_DIR``, else the user's cache."""
    chosen = environment.get("TORCHWHEEL_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return PlatformDirs("torchwheel", appauthor=False).user_cache_path


def survey(request: BuildRequest) -> Inputs:
    """Read everything that a plan is made from.

    Raises:
        TorchwheelError: the settings, the tree or the named toolkit cannot be read; all problems at once.
    """

    host = _host(request)
    settings = _settings(request, host)
    tree = source_tree(request.project, settings)
    environment = None if request.platform else _kept_environment(request, settings, tree, host)
    return Inputs(
        settings=settings,
        tree=tree,
        host=host,
        named_toolkit=_named_toolkit(request, settings, host),
        toolkits=_toolkits(request, settings, host),
        packaged=_packaged_toolkits(request, settings, host, environment),
        cache=cache_folder(request.environment),
        environment=environment,
        python_executable=_interpreter(environment, host),
        in_place=request.in_place or _builds_in_place(settings),
    )


def source_tree(project: Path, settings: Settings) -> Tree:
    """The tree of a project: the one that ``source`` names, else the project's own folder.

    Raises:
        TorchwheelError: there is no PyTorch source tree.
    """

    if settings.source is None:
        return read_tree(project)
    return read_tree(settings.source, settings.entries["source"].origin)


def _host(request: BuildRequest) -> Host:
    if request.platform is None:
        return this_host(request.environment)
    default = "python.exe" if request.platform.startswith("win") else "python3"
    return described_host(request.platform, python_executable=request.python or default)


def _settings(request: BuildRequest, host: Host) -> Settings:
    def detect() -> tuple[object, ...]:

        return detect_gpus(request.environment)

    return load_settings(
        request.project,
        request.config_settings,
        request.environment,
        host,
        detect=detect if host.here else None,  # type: ignore[arg-type]
    )


def _builds_in_place(settings: Settings) -> bool:
    """Whoever adopted a tree chose to build in it."""
    return settings.adopted and settings.source is None


def _found_without(path: str, environment: Mapping[str, str]) -> tuple[Toolkit, ...]:
    """The toolkits to offer if ``path`` is none; searched for only then."""

    return () if read_toolkit(Path(path), "") else discover_toolkits(environment)


def _named_toolkit(request: BuildRequest, settings: Settings, host: Host) -> Toolkit | None:
    if settings.cuda_path is None or settings.is_cpu:
        return None

    origin = settings.entries["cuda-path"].origin
    if host.here:
        return toolkit_at(settings.cuda_path, origin, _found_without(settings.cuda_path, request.environment))
    toolkit = assumed_toolkit(None, host.platform_tag, root=settings.cuda_path)
    if toolkit is None:
        raise TorchwheelError(
            Problem(
                id="unknown-toolkit-version",
                what=f"the version of the CUDA toolkit in {settings.cuda_path} cannot be told from its path",
                why=f"the plan is for {host.platform_tag}, so the folder cannot be looked into from here",
                remedy="name a folder that ends in the version, such as v12.9 or cuda-12.9",
                origin=origin,
            )
        )
    return toolkit


def _toolkits(request: BuildRequest, settings: Settings, host: Host) -> tuple[Toolkit, ...]:
    if not host.here or settings.is_cpu or settings.cuda_path is not None or settings.cuda_from == "pypi":
        return ()

    return discover_toolkits(request.environment)


def _packaged_toolkits(
    request: BuildRequest, settings: Settings, host: Host, environment: Path | None
) -> tuple[PackagedToolkit, ...]:
    """What PyPI's packages make: those in the environment that builds, and those that torchwheel keeps."""
    if not host.here or settings.is_cpu or settings.cuda_path is not None or settings.cuda_from == "system":
        return ()

    cache = cache_folder(request.environment)
    tag, platform = host.python.interpreter_tag, host.platform_tag
    # pip's isolated environment is nothing but folders on sys.path.
    own = [site_packages(environment)] if environment else [Path(folder) for folder in sys.path]
    kept = [site_packages(packages_environment(cache, release, tag)) for release in installable(platform)]
    folders = (folder for folder in dict.fromkeys((*own, *kept)) if (folder / "nvidia").is_dir())
    found = (packaged_toolkit(folder, cache, packages().needed(platform)) for folder in folders)
    return tuple(toolkit for toolkit in found if toolkit is not None)


def _kept_environment(request: BuildRequest, settings: Settings, tree: Tree, host: Host) -> Path | None:
    if settings.build_env == "current":
        return None
    if settings.build_env == "auto" and not is_short_lived() and requirements_met(tree.requires):
        return None
    return environment_folder(cache_folder(request.environment), tree.requires, host.python.interpreter_tag)


def _interpreter(environment: Path | None, host: Host) -> str:
    if not host.here:
        return host.python.executable
    return sys.executable if environment is None else interpreter_in(environment)


def metadata_is_cheap(project: Path) -> bool:
    """Whether the project's tree can give its metadata without building: never with setup.py.

    Asked by frontends before anything else, so a project that cannot be read answers no and the hook that
    follows explains why.
    """

    try:
        root = named_source(read_project(project), this_host(os.environ)) or project
        if read_build_system(root).generation is not Generation.SCIKIT_BUILD_CORE:
            return False
        return not _has_failed_overrides(read_pyproject(root))
    except (TorchwheelError, OSError):
        return False


def _has_failed_overrides(pyproject: Mapping[str, Any]) -> bool:
    """Whether the metadata depends on whether the build fails; scikit-build-core then has no such hooks.

    Source: https://scikit-build-core.readthedocs.io/en/stable/configuration/overrides.html (``if.failed``)
    """
    overrides = pyproject.get("tool", {}).get("scikit-build", {}).get("overrides", [])
    conditions = [override.get("if", {}) for override in overrides]
    return any("failed" in condition or "failed" in condition.get("any", {}) for condition in conditions)
