"""What a project compiles, whichever of the ways it describes its extensions in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.hooks.project import Way, way_of
from torchwheel.extension.model import Extension, ExtensionPlan
from torchwheel.extension.plan import make_extension_plan
from torchwheel.extension.profile.model import Compile, Compiles
from torchwheel.extension.profile.setup_py import setup_py_extensions
from torchwheel.extension.project_extensions import extensions_of_tables
from torchwheel.extension.survey import survey_extensions
from torchwheel.extension.tables import read_extension_tables
from torchwheel.settings.spelling import nearest
from torchwheel.survey import ConfigSettings


def project_plan(
    project: Path, config_settings: ConfigSettings, environment: Mapping[str, str]
) -> ExtensionPlan:
    """The plan of a project's extensions, from its tables, else from its setup.py.

    Raises:
        TorchwheelError: it has neither, they are wrong, or settings or PyTorch cannot be read.
    """

    extensions = _extensions(project, config_settings, environment)
    return make_extension_plan(survey_extensions(project, extensions, config_settings, environment))


def _extensions(
    project: Path, config_settings: ConfigSettings, environment: Mapping[str, str]
) -> tuple[Extension, ...]:
    way = way_of(project)
    if way is Way.TABLES:
        return extensions_of_tables(read_extension_tables(project), project, config_settings, environment)
    if way is Way.SETUP_PY:
        return setup_py_extensions(project, config_settings)
    raise TorchwheelError(_by_cmake(project))


def selected(compiles: Compiles, patterns: Iterable[str]) -> Compiles:
    """The compiles with sources that a pattern matches; all of them without patterns.

    Raises:
        TorchwheelError: patterns that match nothing; all of them are in it.
    """
    asked = tuple(patterns)
    useless = [p for p in asked if not any(_matches(compile, p) for compile in compiles.compiles)]
    if useless:
        raise TorchwheelError([_unmatched(pattern, compiles) for pattern in useless])
    kept = tuple(c for c in compiles.compiles if not asked or any(_matches(c, p) for p in asked))
    return replace(compiles, compiles=kept)


def _matches(compile: Compile, pattern: str) -> bool:
    return any(
        fnmatchcase(name, pattern)
        for source in compile.sources
        for name in (source, source.rpartition("/")[2])
    )


def _unmatched(pattern: str, compiles: Compiles) -> Problem:
    names = [source for compile in compiles.compiles for source in compile.sources]
    meant = nearest(pattern, names)
    return Problem(
        id="no-such-source",
        what=f"no source of the project matches '{pattern}'",
        why=f"its sources are {', '.join(names)}",
        remedy=f"did you mean '{meant}'?" if meant else "name one of them, or a pattern such as '*.cu'",
        origin="--source",
    )


def _by_cmake(project: Path) -> Problem:
    return Problem(
        id="commands-of-cmake",
        what=f"{project} describes its extensions to CMake, which knows the commands once it has configured",
        remedy="configure it with CMake for ninja and name its build folder: torchwheel extension profile "
        "--build-folder FOLDER",
        origin=str(project / "CMakeLists.txt"),
    )
