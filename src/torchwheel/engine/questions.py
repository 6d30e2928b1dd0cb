"""Questions to the tree's own backend that need no build: what must be installed, what the metadata is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchwheel.engine.carrying_out import checked_plan, diagnose_failures
from torchwheel.engine.workspace import locked_folders, workspace
from torchwheel.plan.model import Plan
from torchwheel.survey import BuildRequest, cache_folder
from torchwheel.tree.build_system import read_pyproject
from torchwheel.tree.model import Generation, Tree
from torchwheel.versions import requirements_met

# Needed by both generations, and asked for by scikit-build-core only in a hook that cannot be called yet.
_PROGRAMS = ("cmake", "ninja")


def required_packages(request: BuildRequest, hook: str) -> list[str]:
    """What the frontend must install before ``build_wheel`` or ``build_editable``.

    Nothing where torchwheel keeps an environment of its own; else what the tree's own backend needs. Where
    that backend is not installed yet it cannot be asked, and CMake and ninja are required unless they are on
    ``PATH``.

    Args:
        request: what is asked for.
        hook: ``get_requires_for_build_wheel`` or ``get_requires_for_build_editable``.

    Raises:
        TorchwheelError: the request cannot be read, or the plan has errors that are not skipped.
    """

    plan = checked_plan(request)
    if plan.folders.environment is not None:
        return []
    missing = plan.toolkit_requires if plan.toolkit_packages is None else ()
    requires = [*plan.build_requires, *missing]
    if not requirements_met(requires):
        path = request.environment.get("PATH")
        return requires + [program for program in _PROGRAMS if shutil.which(program, path=path) is None]
    with _folder_to_ask_in(plan, request) as folder, diagnose_failures(plan):
        asked: list[str] = (
            workspace(plan, request.environment).backend(folder).call(hook, plan.inner_config_settings)
        )
    return requires + asked


def prepare_metadata(request: BuildRequest, metadata_directory: Path, *, editable: bool) -> str:
    """The wheel's metadata without building it, from the tree's own backend.

    Args:
        request: what is asked for.
        metadata_directory: gets the ``.dist-info`` folder.
        editable: for an editable install.

    Returns:
        The name of the ``.dist-info`` folder.

    Raises:
        TorchwheelError: the request cannot be read, the plan has errors that are not skipped, or the tree's
            own backend failed.
    """
    plan = checked_plan(request)
    hook = f"prepare_metadata_for_build_{'editable' if editable else 'wheel'}"
    with _folder_to_ask_in(plan, request) as folder, diagnose_failures(plan):
        backend = workspace(plan, request.environment).backend(folder)
        return str(backend.call(hook, str(metadata_directory), plan.inner_config_settings, False))


@contextmanager
def _folder_to_ask_in(plan: Plan, request: BuildRequest) -> Iterator[Path]:
    """The user's tree if the backend only reads it when asked, else the folder that is built in."""
    if _writes_when_asked(plan.tree):
        with locked_folders(plan, cache_folder(request.environment)):
            yield plan.folders.source
    else:
        plan.folders.root.mkdir(parents=True, exist_ok=True)
        yield plan.tree.root


def _writes_when_asked(tree: Tree) -> bool:
    """Whether a hook that builds nothing writes into the tree.

    setup.py leaves its egg-info; scikit-build-core writes files for which ``[[tool.scikit-build.generate]]``
    says ``location = "source"``.
    """
    if tree.generation is Generation.SETUP_PY:
        return True
    generated = read_pyproject(tree.root).get("tool", {}).get("scikit-build", {}).get("generate", [])
    return any(entry.get("location") == "source" for entry in generated)
