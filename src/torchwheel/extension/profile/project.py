"""The plan of a project's extensions, whichever way it describes them: in tables, or in a setup.py.

A setup.py is run up to the point where it would build.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.handover import VARIABLE, Handover
from torchwheel.extension.hooks.project import ProjectKind, project_kind
from torchwheel.extension.model import Extension, ExtensionPlan
from torchwheel.extension.plan import make_extension_plan
from torchwheel.extension.pyproject_extensions import project_extensions
from torchwheel.extension.setuptools_ext import TorchExtension, setup_py_extensions
from torchwheel.extension.survey import ExtensionProject, read_extension_project, survey_extensions
from torchwheel.survey import BuildRequest


def project_plan(request: BuildRequest) -> ExtensionPlan:
    """The plan of a project's extensions, from its tables, else from its setup.py.

    Raises:
        TorchwheelError: it has neither, they are wrong, or settings or PyTorch cannot be read.
    """
    project = read_extension_project(request)
    return make_extension_plan(survey_extensions(project, _extensions(project)))


def _extensions(project: ExtensionProject) -> tuple[Extension, ...]:
    kind = project_kind(project.pyproject)
    if kind is ProjectKind.TABLES:
        return project_extensions(project)
    if kind is ProjectKind.SETUP_PY:
        return read_setup_py(project)
    raise TorchwheelError(
        Problem(
            id="commands-of-cmake",
            what=f"{project.folder} describes its extensions to CMake, which knows the commands once it has configured",
            remedy="configure it with CMake for ninja and name its build folder: torchwheel extension profile "
            "--build-folder FOLDER",
            origin=str(project.folder / "CMakeLists.txt"),
        )
    )


def read_setup_py(project: ExtensionProject) -> tuple[Extension, ...]:
    """The extensions of a project's setup.py that torchwheel builds.

    setuptools runs the script and stops before any command.
    Source: https://docs.python.org/3.11/distutils/apiref.html#distutils.core.run_setup

    Raises:
        TorchwheelError: setuptools is missing, the script fails, or it describes no such extension.
    """
    try:
        # setuptools brings a distutils of its own, which is there only once it is imported.
        import_module("setuptools")
        core: Any = import_module("distutils.core")
    except ImportError:
        what = "the project has a setup.py, and setuptools, which reads it, is not installed here"
        raise _refused("setuptools-missing", what, "pip install setuptools", project.folder) from None

    with _standing_in(project):
        distribution = _distribution(core, project.folder)
        extensions = [one for one in distribution.ext_modules or () if isinstance(one, TorchExtension)]
        if not extensions:
            what = "setup.py describes no extension that torchwheel builds"
            remedy = "import them from torchwheel: from torchwheel import BuildExtension, CUDAExtension"
            why = "only those made by torchwheel's CUDAExtension and CppExtension have a plan"
            raise _refused("no-extensions", what, remedy, project.folder, why)
        return setup_py_extensions(extensions, project)


def _distribution(core: Any, project: Path) -> Any:
    try:
        # It returns the distribution of an earlier script where this one makes none.
        core._setup_distribution = None
        return core.run_setup("setup.py", script_args=["build_ext"], stop_after="init")
    except TorchwheelError:
        raise
    except Exception as failure:  # whatever the project's own code raises
        what = f"setup.py cannot be read: {type(failure).__name__}: {failure}"
        remedy = "run 'python setup.py --name' until it works, and install here what it imports"
        raise _refused("setup-py-failed", what, remedy, project) from failure


def _refused(id: str, what: str, remedy: str, project: Path, why: str = "") -> TorchwheelError:
    return TorchwheelError(
        Problem(id=id, what=what, remedy=remedy, why=why, origin=str(project / "setup.py"))
    )


@contextmanager
def _standing_in(project: ExtensionProject) -> Iterator[None]:
    """As if a hook had started the script in its folder; what it prints goes to stderr, where it spoils no document."""
    before, path = Path.cwd(), list(sys.path)
    os.chdir(project.folder)
    sys.path.insert(0, str(project.folder))
    os.environ |= Handover(Path.cwd(), project.request.config_settings, None).variables()
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.chdir(before)
        del os.environ[VARIABLE]
        sys.path[:] = path
