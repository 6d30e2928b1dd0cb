"""A project with extensions: how it describes them, a frontend's request for it, and its plan."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchwheel.extension.extension_plan import Extension, ExtensionPlan, ExtensionProject
from torchwheel.extension.extension_survey import plan_extensions, read_extension_project
from torchwheel.extension.handover import VARIABLE, Handover, hide_target
from torchwheel.extension.options import has_extension_tables, project_extensions
from torchwheel.host.compilers import join_words
from torchwheel.host.this import asked_cache_folder
from torchwheel.plan.request_checks import (
    moved_cache,
    of_another_backend,
    partial_build,
    refused_variable_findings,
    refused_variables,
)
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal, stop_on, stopping_errors
from torchwheel.reporting.terminal import say
from torchwheel.settings.config_settings import ConfigSettings, bare_name
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.project import Project
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.survey import BuildRequest
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import is_file
from torchwheel.versions import is_version

CMAKE = "cmake>=3.20"
"""The oldest CMake with depfiles for custom commands."""

CMAKE_FUNCTION = "torchwheel_add_extension"

NINJA = "Ninja"
"""The only supported CMake generator."""

_SCIKIT_BUILD = ("tool", "scikit-build")
_FORWARDED = re.compile(r"(?:cmake\.)?define\.")
_TARGET_VARIABLE = "cmake.define.TORCHWHEEL_TARGET"
_COMPILERS = {"CC": "cmake.define.CMAKE_C_COMPILER", "CXX": "cmake.define.CMAKE_CXX_COMPILER"}
_OF_TREES = frozenset({"build-env"})


class ProjectKind(Enum):
    """How a project describes its extensions: tables, CMake (with scikit-build-core), or a setup.py."""

    TABLES = "tables"
    CMAKE = "cmake"
    SETUP_PY = "setup.py"

    @property
    def backend(self) -> str:
        return "scikit_build_core.build" if self is ProjectKind.CMAKE else "setuptools.build_meta"

    @property
    def hooks(self) -> str:
        """The module of the hooks: the backend's, or torchwheel's own that add the tables' extensions."""
        return "torchwheel.extension.table_setup" if self is ProjectKind.TABLES else self.backend

    @property
    def requirement(self) -> str:
        return "scikit-build-core>=1.0" if self is ProjectKind.CMAKE else "setuptools>=77"

    @property
    def is_installed(self) -> bool:
        return find_spec(self.backend.partition(".")[0]) is not None


@dataclass(frozen=True)
class HookRequest:
    """A frontend's request for a project, with torchwheel's own part of ``-C`` and that of the inner backend."""

    project: ExtensionProject
    kind: ProjectKind
    own: ConfigSettings
    inner: ConfigSettings


def read_hook_request(request: BuildRequest) -> HookRequest:
    """Read a project and a frontend's request for it."""
    given: dict[str, Any] = dict(request.config_settings)
    if _TARGET_VARIABLE in given:
        given.setdefault("target", given.pop(_TARGET_VARIABLE))
    # CMake's compilers are also nvcc's host compiler, and determine the build folder.
    compilers = {
        name: join_words([str(given[key])], windows=os.name == "nt")
        for name, key in _COMPILERS.items()
        if key in given
    }
    environment = {**request.environment, **compilers}
    project = read_extension_project(replace(request, config_settings=given, environment=environment))
    settings = project.settings
    moved = moved_cache(asked_cache_folder(project.environment), project.cache)
    project = replace(
        project,
        request=replace(project.request, environment=pytorch_variables().without_refused(environment)),
        findings=(*project.findings, *refused_variable_findings(settings), *moved),
    )
    kind = project_kind(project.pyproject, settings.extensions_from)
    backend = "scikit-build-core" if kind is ProjectKind.CMAKE else "setuptools"
    problems = [*of_another_backend(settings, backend, str(project.folder), has_options=False)]
    problems += refused_variables(settings)
    if kind is ProjectKind.TABLES:
        problems += _unread_descriptions(project)
    problems += [
        Problem.of("setting-of-trees", origin=one.origin, setting=one.component or one.key)
        for one in settings.entries.values()
        if not _has_effect(one, kind)
    ]
    if kind is ProjectKind.CMAKE:
        problems += partial_build(settings)
    stop_on(problems)
    own = {key: value for key, value in given.items() if bare_name(key) not in settings.passthrough}
    inner = dict(settings.passthrough)
    if kind is ProjectKind.CMAKE:
        for key, value in own.items():
            name = bare_name(key)
            if prefix := _FORWARDED.match(name):
                inner[f"cmake.define.{name[prefix.end() :]}"] = value
    return HookRequest(project, kind, own, inner)


def _unread_descriptions(project: ExtensionProject) -> Iterator[Problem]:
    """Report what only CMake would read; other programs of a project may have a CMakeLists.txt, too."""
    if project.pyproject.table(*_SCIKIT_BUILD):
        yield Problem.of("scikit-build-unread", origin="pyproject.toml [tool.scikit-build]")
    if CMAKE_FUNCTION in read_beginning(project.folder / "CMakeLists.txt"):
        yield Problem.of("scikit-build-unread/cmake", origin="CMakeLists.txt")


def _has_effect(setting: Setting, kind: ProjectKind) -> bool:
    """Whether a setting affects the build of an extension; a user's general settings may be for other builds."""
    if setting.layer not in (Layer.PROJECT, Layer.CONFIG):
        return True
    if not setting.key.startswith("define."):
        return setting.key not in _OF_TREES
    if setting.key == "define.USE_CUDA" or f"cmake.{setting.key}" in _COMPILERS.values():
        return True
    # Options in cmake.args are checked with that setting.
    forwarded = kind is ProjectKind.CMAKE or not setting.origin.endswith(setting.key)
    return setting.layer is Layer.CONFIG and not setting.component and forwarded


def project_kind(project: Project, chosen: str | None = None) -> ProjectKind:
    """Determine how a project describes its extensions: in tables, else in a setup.py that names some, else in CMake.

    Projects that build with setup.py often also have a CMakeLists.txt for C++ programs.
    """
    folder = project.folder
    if has_extension_tables(project):
        stated = project.table("project")
        if not stated.get("name"):
            raise refusal("no-project-metadata", origin="pyproject.toml")
        if not is_version(stated.get("version", "0")):
            raise refusal("invalid-version/project", origin="pyproject.toml", version=stated["version"])
        return ProjectKind.TABLES
    source_dir = project.table(*_SCIKIT_BUILD, "cmake").get("source-dir")
    elsewhere = source_dir if isinstance(source_dir, str) else "."
    has_cmake = any(is_file(folder / place / "CMakeLists.txt") for place in (".", elsewhere))
    setup_py = folder / "setup.py"
    described = chosen == "setup.py" if chosen else "ext_modules" in read_beginning(setup_py)
    if is_file(setup_py) and (described or not has_cmake):
        return ProjectKind.SETUP_PY
    if has_cmake:
        return ProjectKind.CMAKE
    raise refusal("no-extensions", origin=folder / "pyproject.toml", folder=folder)


def project_plan(asked: HookRequest) -> ExtensionPlan:
    project = asked.project
    if asked.kind is ProjectKind.TABLES:
        plan = plan_extensions(project, project_extensions(project))
        return plan if stopping_errors(plan.findings, plan.skipped) else described_plan(plan)
    if asked.kind is ProjectKind.SETUP_PY:
        return _plan_setup_py(project)
    raise refusal("commands-of-cmake", origin=project.folder / "CMakeLists.txt", folder=project.folder)


def described_plan(plan: ExtensionPlan, build: Path | None = None) -> ExtensionPlan:
    """See :func:`torchwheel.extension.setuptools_ext.with_described_steps`."""
    try:
        from torchwheel.extension.setuptools_ext import with_described_steps  # imports setuptools
    except ImportError:
        raise refusal("setuptools-missing", origin=plan.project.folder / "pyproject.toml") from None
    return with_described_steps(plan, build)


def _plan_setup_py(project: ExtensionProject) -> ExtensionPlan:
    with read_setup_py(project) as (extensions, described):
        plan = plan_extensions(project, described)
        if stopping_errors(plan.findings, plan.skipped):
            return plan
        from torchwheel.extension.setuptools_ext import with_steps  # imports setuptools

        return with_steps(plan, extensions)


@contextmanager
def read_setup_py(project: ExtensionProject) -> Iterator[tuple[list[Any], tuple[Extension, ...]]]:
    """Read the extensions of a project's setup.py that torchwheel builds; yields them in the script's surroundings.

    setuptools runs the script and stops before any command.
    Source: https://docs.python.org/3.11/distutils/apiref.html#distutils.core.run_setup
    """
    script = str(project.folder / "setup.py")
    try:
        # Most projects and frontends do not use setuptools, and importing it replaces distutils.
        from torchwheel.extension.setuptools_ext import described_setup_py, torch_extensions

        core: Any = import_module("distutils.core")
    except ImportError:
        raise refusal("setuptools-missing", origin=script) from None

    with _standing_in(project):
        say(f"running {script}, which says what its extensions are")
        try:
            # It would return the distribution of an earlier script if this one creates none.
            core._setup_distribution = None
            distribution = core.run_setup("setup.py", script_args=["build_ext"], stop_after="init")
        except TorchwheelError:
            raise
        except Exception as failure:  # whatever the project's own code raises
            kind = type(failure).__name__
            raise refusal("setup-py-failed", origin=script, kind=kind, text=failure) from failure
        extensions = torch_extensions(distribution.ext_modules)
        if not extensions:
            named = "cpp_extension" in (text := read_beginning(Path(script))) or "torchwheel" in text
            raise refusal(f"no-extensions/{'setup-py' if named else 'own-build'}", origin=script)
        yield extensions, described_setup_py(extensions, project)


@contextmanager
def _standing_in(project: ExtensionProject) -> Iterator[None]:
    """Run the script like a hook in its folder; stdout is for the document alone."""
    before, path = Path.cwd(), list(sys.path)
    os.chdir(project.folder)
    sys.path.insert(0, str(project.folder))
    os.environ |= Handover(Path.cwd(), project.request.config_settings, None).variables()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        hide_target()
        os.chdir(before)
        del os.environ[VARIABLE]
        sys.path[:] = path
