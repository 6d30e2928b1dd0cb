"""Read the inputs of a plan once: the settings, the tree, the machine and its toolkits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchwheel.hardware.gpu_catalogue import detect_gpus
from torchwheel.host.compiler_cache import find_compiler_cache
from torchwheel.host.compilers import find_compilers
from torchwheel.host.installer import version_choices
from torchwheel.host.machine import Host, described_host, parse_platform
from torchwheel.host.this import (
    asked_cache_folder,
    cache_folder,
    environment_folder,
    import_folders,
    interpreter_in,
    is_isolated,
    other_writers,
    this_host,
    with_home_and_path,
)
from torchwheel.plan.defines import build_requirements
from torchwheel.plan.make import Inputs
from torchwheel.reporting.errors import TorchwheelError, refusal, report_errors
from torchwheel.reporting.terminal import shell_word
from torchwheel.reproducible import source_date
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.settings.project import NAME_VARIABLE, TOOL, Project, named_source, read_project
from torchwheel.system.supervisor import ending_with_frontend
from torchwheel.system.toml import get_subtable
from torchwheel.toolkit.discover import find_candidates
from torchwheel.toolkit.pypi import needed_packages
from torchwheel.toolkit.select import Candidates
from torchwheel.tree.source_tree import (
    Generation,
    Tree,
    backend_settings,
    is_source_tree,
    read_build_system,
    read_pyproject,
    read_tree,
)
from torchwheel.versions import requirements_met


@dataclass(frozen=True)
class BuildRequest:
    """A request for a build or a plan, before anything is read.

    Attributes:
        project: the folder with the pyproject.toml: a wrapper project, or a PyTorch tree.
        in_place: build in the tree itself (an adopted tree, an editable install).
        platform: plan for this platform tag instead of this machine, with the version ``python``.
        working_folder: the folder of relative paths in ``config_settings`` and ``environment``.
    """

    project: Path
    config_settings: ConfigSettings
    environment: Mapping[str, str]
    in_place: bool = False
    platform: str | None = None
    python: str | None = None
    working_folder: Path = Path()


@contextmanager
def hook_request(config_settings: ConfigSettings | None, *, in_place: bool = False) -> Iterator[BuildRequest]:
    """Yield the request of a frontend, with which the process ends; errors are printed, and become SystemExit."""
    with report_errors(config_settings), ending_with_frontend():
        yield BuildRequest(Path.cwd(), config_settings or {}, with_home_and_path(os.environ), in_place)


def survey(request: BuildRequest) -> Inputs:
    if request.platform is None:
        host = this_host()
    else:
        python = usual_python(parse_platform(request.platform, "--platform").tag)
        host = described_host(request.platform, python_version=request.python, python_executable=python)
    settings = load_settings(
        request.project,
        request.config_settings,
        request.environment,
        host,
        detect=(lambda: detect_gpus(request.environment)) if host.here else None,
        working_folder=request.working_folder,
    )
    build_environment = {**request.environment, **settings.env}
    if host.here:
        named = _naming_compilers(settings, build_environment)
        host = replace(host, compilers=find_compilers(named, host.system))
    tree = source_tree(request.project, settings)
    cache = cache_folder(request.environment)
    kept = _kept_environment(settings, tree, host, cache, request) if host.here else None
    return Inputs(
        settings=settings,
        tree=tree,
        host=host,
        toolkits=_find_toolkits(settings, host, request.environment, cache, kept),
        cache=cache,
        asked_cache=asked_cache_folder(request.environment),
        cache_writers=writers_of_builds(cache, settings) if host.here else "",
        environment=kept,
        python_executable=interpreter_in(kept) if host.here else host.python.executable,
        # Neither the automatic choice nor an environment's content, and so its path, changes the build folder.
        python_identity=sys.base_prefix if host.here and settings.build_env != "current" else "",
        in_place=request.in_place or (tree.adopted and settings.source is None),
        compiler_cache=find_compiler_cache(settings.compiler_cache, host, build_environment),
        reproducible=source_date(request.environment) is not None,
    )


def _find_toolkits(
    settings: Settings, host: Host, environment: Mapping[str, str], cache: Path, kept: Path | None
) -> Candidates:
    packages = needed_packages(host.platform_tag)
    return find_candidates(settings, host, environment, cache, import_folders(kept), packages)


def with_installed_toolkit(inputs: Inputs, environment: Mapping[str, str]) -> Inputs:
    """Update inputs after packages of a CUDA toolkit were installed: search only for toolkits again."""
    found = _find_toolkits(inputs.settings, inputs.host, environment, inputs.cache, inputs.environment)
    return replace(inputs, toolkits=found)


def writers_of_builds(cache: Path, settings: Settings) -> str:
    """Describe who else can write to the folder of builds; empty for nobody."""
    folders = (cache, *((Path(settings.build_dir),) if settings.build_dir else ()))
    return next(filter(None, map(other_writers, folders)), "")


def source_tree(project: Path, settings: Settings) -> Tree:
    """Read the tree of a project, with the wheel's name: the one in ``source``, else the project's own folder."""
    if settings.source is None:
        tree = _own_tree(project, settings.project)
    else:
        tree = read_tree(settings.source, settings.entries["source"].origin)
    # Since 2.14 the name is in pyproject.toml.
    name = settings.variables.get(NAME_VARIABLE)
    if name is None or tree.generation is not Generation.SETUP_PY:
        return tree
    return replace(tree, name=name.text)


def _own_tree(folder: Path, project: Project | None) -> Tree:
    try:
        return read_tree(folder)
    except TorchwheelError as error:
        if project is None or {problem.id for problem in error.problems} != {"not-pytorch"}:
            raise
        if project.describes_extensions:
            raise refusal("not-pytorch/extensions", path=folder, word=shell_word(str(folder))) from None
        if not project.is_wrapper:
            raise
        raise refusal("source-not-named", origin=folder / "pyproject.toml") from None


def has_extensions(folder: Path) -> bool:
    """Whether a folder is a project with extensions of PyTorch, and not one of PyTorch's own source."""
    project = read_project(folder)
    own = project.describes_extensions and "source" not in project.table("tool", TOOL)
    return own and not is_source_tree(folder)


def usual_python(platform_tag: str) -> str:
    return "python.exe" if platform_tag.startswith("win") else "python3"


def _naming_compilers(settings: Settings, environment: Mapping[str, str]) -> dict[str, str]:
    """Set the compilers in CMake's options as variables, because CMake's options take precedence over variables."""
    options = {"CC": "CMAKE_C_COMPILER", "CXX": "CMAKE_CXX_COMPILER"}
    named = {name: f'"{settings.define[o]}"' for name, o in options.items() if o in settings.define}
    return {**environment, **named}


def _kept_environment(
    settings: Settings, tree: Tree, host: Host, cache: Path, request: BuildRequest
) -> Path | None:
    if settings.build_env == "current":
        return None
    requires = build_requirements(tree, settings)
    # Without isolation the user wants the current environment.
    if settings.build_env == "auto" and not is_isolated() and requirements_met(requires):
        return None
    # The installer's settings count as well, or the versions of an earlier build would be kept.
    chosen = version_choices(request.environment)
    return environment_folder(cache, (*requires, *chosen), host.python.abi_tag)


def metadata_is_cheap(project: Path) -> bool:
    """Whether the metadata of the project's tree is available without building: never with setup.py."""
    # Frontends ask this first; the next hook reports why a project cannot be read.
    with suppress(TorchwheelError, OSError):
        root = named_source(read_project(project), this_host()) or project
        scikit = read_build_system(root).generation is Generation.SCIKIT_BUILD_CORE
        return scikit and not _has_failed_overrides(read_pyproject(root))
    return False


def _has_failed_overrides(pyproject: Mapping[str, Any]) -> bool:
    """Whether the metadata depends on whether the build fails; scikit-build-core then has no such hooks.

    Source: https://scikit-build-core.readthedocs.io/en/stable/configuration/overrides.html (``if.failed``)
    """
    overrides = backend_settings(pyproject).get("overrides", [])
    tables = overrides if isinstance(overrides, list) else []
    conditions = [get_subtable(one, "if") for one in tables if isinstance(one, Mapping)]
    return any("failed" in one or "failed" in get_subtable(one, "any") for one in conditions)
