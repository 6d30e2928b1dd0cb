"""The plan of a project's extensions, whichever way it describes them: in tables, or in a setup.py.

A setup.py is run up to the point where it would build.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.hooks.inner_build import inner_build
from torchwheel.extension.hooks.project import Way, way_of
from torchwheel.extension.model import Extension, ExtensionPlan
from torchwheel.extension.plan import make_extension_plan
from torchwheel.extension.project_extensions import extensions_of_tables
from torchwheel.extension.setuptools_ext import TorchExtension, asked_extensions
from torchwheel.extension.survey import survey_extensions
from torchwheel.extension.tables import read_extension_tables
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


def setup_py_extensions(project: Path, config_settings: ConfigSettings) -> tuple[Extension, ...]:
    """The extensions of a project's setup.py that torchwheel builds.

    setuptools runs the script and stops before any command.
    Source: https://docs.python.org/3.11/distutils/apiref.html#distutils.core.run_setup

    Args:
        project: its folder.
        config_settings: torchwheel's settings, which some extensions depend on.

    Raises:
        TorchwheelError: setuptools is missing, the script fails, or it describes no such extension.
    """
    try:
        # setuptools brings a distutils of its own, which is there only once it is imported.
        import_module("setuptools")
        core: Any = import_module("distutils.core")
    except ImportError:
        raise TorchwheelError(_no_setuptools(project)) from None

    with _standing_in(project), inner_build(config_settings):
        distribution = _distribution(core, project)
        extensions = [one for one in distribution.ext_modules or () if isinstance(one, TorchExtension)]
        if not extensions:
            raise TorchwheelError(_none(project))
        return tuple(asked_extensions(extensions))


def _distribution(core: Any, project: Path) -> Any:
    try:
        # It returns the distribution of an earlier script where this one makes none.
        core._setup_distribution = None
        return core.run_setup("setup.py", script_args=["build_ext"], stop_after="init")
    except TorchwheelError:
        raise
    except Exception as failure:  # whatever the project's own code raises
        raise TorchwheelError(_failed(project, failure)) from failure


@contextmanager
def _standing_in(project: Path) -> Iterator[None]:
    """As if the script was started in its folder; what it prints goes to stderr, where it spoils no document."""
    before, path = Path.cwd(), list(sys.path)
    os.chdir(project)
    sys.path.insert(0, str(project))
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.chdir(before)
        sys.path[:] = path


def _no_setuptools(project: Path) -> Problem:
    return Problem(
        id="setuptools-missing",
        what="the project has a setup.py, and setuptools, which reads it, is not installed here",
        remedy="pip install setuptools",
        origin=str(project / "setup.py"),
    )


def _failed(project: Path, failure: Exception) -> Problem:
    return Problem(
        id="setup-py-failed",
        what=f"setup.py cannot be read: {type(failure).__name__}: {failure}",
        remedy="run 'python setup.py --name' until it works, and install here what it imports",
        origin=str(project / "setup.py"),
    )


def _none(project: Path) -> Problem:
    return Problem(
        id="no-extensions",
        what="setup.py describes no extension that torchwheel builds",
        why="only those made by torchwheel's CUDAExtension and CppExtension have a plan",
        remedy="import them from torchwheel: from torchwheel import BuildExtension, CUDAExtension",
        origin=str(project / "setup.py"),
    )


def _by_cmake(project: Path) -> Problem:
    return Problem(
        id="commands-of-cmake",
        what=f"{project} describes its extensions to CMake, which knows the commands once it has configured",
        remedy="configure it with CMake for ninja and name its build folder: torchwheel extension profile "
        "--build-folder FOLDER",
        origin=str(project / "CMakeLists.txt"),
    )
