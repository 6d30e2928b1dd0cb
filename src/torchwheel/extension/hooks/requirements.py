"""What the backend asks a frontend to install before a build, and nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from torchwheel.extension.hooks.inner_backend import hook, is_installed, on_path, requirement
from torchwheel.extension.hooks.inner_build import inner_build
from torchwheel.extension.hooks.project import CMAKE, Asked, Way, asked_of_project
from torchwheel.extension.model import Extension
from torchwheel.extension.plan import make_extension_plan
from torchwheel.extension.project_extensions import extensions_of_tables
from torchwheel.extension.source_patterns import has_source
from torchwheel.extension.survey import survey_extensions
from torchwheel.extension.tables import read_extension_tables
from torchwheel.survey import ConfigSettings

NINJA = "ninja>=1.11"


def required_packages(
    project: Path, config_settings: ConfigSettings | None, environment: Mapping[str, str], hook_name: str
) -> list[str]:
    """The answer to ``get_requires_for_build_*``.

    Raises:
        TorchwheelError: the settings are wrong, or PyTorch is not among ``build-system.requires``.
    """
    asked = asked_of_project(project, config_settings, environment)
    names = list(_inner(asked, hook_name))
    if hook_name != "get_requires_for_build_sdist":
        names += _ninja(asked, names)
        names += _toolkit(asked)
    return list(dict.fromkeys(names))


def _inner(asked: Asked, hook_name: str) -> Iterator[str]:
    """The inner backend, and what it asks for itself if it is installed."""
    if is_installed(asked.way):
        with inner_build(asked.own):
            yield from hook(asked.way, hook_name)(dict(asked.inner))
        return
    yield requirement(asked.way)
    builds = asked.way is not Way.SETUP_PY and hook_name != "get_requires_for_build_sdist"
    there = asked.environment.get("CMAKE_EXECUTABLE") or on_path("cmake", asked.environment)
    if builds and not there:
        yield CMAKE


def _ninja(asked: Asked, named: list[str]) -> Iterator[str]:
    """ninja, unless it is there or named already."""
    if any(name.startswith("ninja") for name in named) or asked.environment.get("CMAKE_MAKE_PROGRAM"):
        return
    if not on_path("ninja", asked.environment):
        yield NINJA


def _toolkit(asked: Asked) -> tuple[str, ...]:
    """The CUDA toolkit's packages, where CUDA sources are compiled and no toolkit of this machine serves.

    What a setup.py or CMakeLists.txt compiles is not known before it runs: any CUDA source in the project counts.
    """

    project = asked.project
    extensions: tuple[Extension, ...] = ()
    if asked.way is Way.TABLES:
        tables = read_extension_tables(project)
        extensions = extensions_of_tables(tables, project, asked.own, asked.environment)
    elif not asked.settings.is_cpu and has_source(project, ".cu"):
        extensions = (Extension(name=project.name, sources=(), cuda=True),)
    return make_extension_plan(
        survey_extensions(project, extensions, asked.own, asked.environment)
    ).toolkit_requirements
