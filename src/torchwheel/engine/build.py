"""Carrying a plan out: from settings to a proved wheel."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchwheel.engine.configure_watch import Configured, ConfigureWatch, check_cmake_cache
from torchwheel.engine.failure import inner_failure
from torchwheel.engine.finish import finish_wheel
from torchwheel.engine.process import ProcessFailed
from torchwheel.engine.workspace import Workspace, install_requirements, locked_folders, workspace
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import stop_on_errors
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.survey import Request, cache_folder, survey
from torchwheel.tree.model import Generation


def checked_plan(request: Request) -> Plan:
    """The plan of a request, if nothing speaks against carrying it out.

    Raises:
        TorchwheelError: the request cannot be read, or the plan has errors that are not skipped.
    """
    plan = make_plan(survey(request))
    stop_on_errors(plan.findings, plan.settings.skip_check)
    return plan


def required_packages(request: Request, hook: str) -> list[str]:
    """What the frontend must install before ``build_wheel`` or ``build_editable``.

    Nothing where torchwheel keeps an environment of its own; else what the tree's own backend needs.

    Args:
        request: what is asked for.
        hook: ``get_requires_for_build_wheel`` or ``get_requires_for_build_editable``.

    Raises:
        TorchwheelError: see :func:`checked_plan`.
    """
    from torchwheel.engine.environment import requirements_met

    plan = checked_plan(request)
    if plan.folders.environment is not None:
        return []
    requires = list(plan.build_requires)
    if requirements_met(requires):
        space = workspace(plan, request.environment)
        with _failures(plan):
            requires += space.backend(plan.tree.root).call(hook, plan.inner_config_settings)
    return requires


def prepare_metadata(request: Request, metadata_directory: Path, *, editable: bool) -> str:
    """The wheel's metadata without building it, from the tree's own backend.

    Args:
        request: what is asked for.
        metadata_directory: gets the ``.dist-info`` folder.
        editable: for an editable install.

    Returns:
        The name of the ``.dist-info`` folder.

    Raises:
        TorchwheelError: see :func:`checked_plan`; or the tree's own backend failed.
    """
    plan = checked_plan(request)
    kind = "editable" if editable else "wheel"
    plan.folders.root.mkdir(parents=True, exist_ok=True)
    space = workspace(plan, request.environment)
    with _failures(plan):
        backend = space.backend(plan.tree.root)
        hook = f"prepare_metadata_for_build_{kind}"
        return str(backend.call(hook, str(metadata_directory), plan.inner_config_settings, False))


def build_wheel(
    request: Request, wheel_directory: Path, metadata_directory: Path | None = None, *, editable: bool = False
) -> str:
    """Build the wheel, prove that it is what its name says, and put it into ``wheel_directory``.

    Args:
        request: what is asked for.
        wheel_directory: gets the wheel, under its final name only when it is complete.
        metadata_directory: what :func:`prepare_metadata` wrote earlier; the wheel's metadata must equal it.
        editable: build an editable wheel.

    Returns:
        The wheel's file name.

    Raises:
        TorchwheelError: the plan has errors, the build failed, or the wheel is not what was planned.
    """
    plan = checked_plan(request)
    cache = cache_folder(request.environment)
    with locked_folders(plan, cache):
        space = workspace(plan, request.environment)
        built = _inner_wheel(space, metadata_directory, editable=editable)
        return finish_wheel(
            plan, built, wheel_directory, metadata_directory, request.environment, editable=editable
        )


def configure(request: Request) -> Plan:
    """Run CMake's configuring only, and prove that it took what was asked.

    Returns:
        The plan; its build directory is ready for ``cmake --build``.

    Raises:
        TorchwheelError: the plan has errors, configuring failed, or CMake took other values.
    """
    plan = checked_plan(request)
    with locked_folders(plan, cache_folder(request.environment)):
        space = workspace(plan, request.environment)
        with _failures(plan):
            install_requirements(space, "get_requires_for_build_wheel")
            # An existing configuration would be left alone by setup.py, and then not be announced.
            plan.folders.cmake_cache.unlink(missing_ok=True)
            try:
                backend = space.backend(plan.folders.source, ConfigureWatch(plan, stop_after=True))
                backend.call(
                    "build_wheel", str(_empty(plan.folders.root / "wheel")), plan.inner_config_settings
                )
            except Configured:
                return plan
    raise TorchwheelError(
        Problem(
            id="configuring-not-seen",
            what="the tree's own backend ended without running CMake in its build directory",
            remedy=f"look into {plan.folders.log}, and report it with that file",
            origin=str(plan.folders.build),
        )
    )


def _inner_wheel(space: Workspace, metadata_directory: Path | None, *, editable: bool) -> Path:
    plan = space.plan
    kind = "editable" if editable else "wheel"
    # setup.py's prepared metadata would mean a whole build; none is ever offered, so none is passed on.
    prepared = metadata_directory if plan.tree.generation is Generation.SCIKIT_BUILD_CORE else None
    folder = _empty(plan.folders.root / "wheel")
    with _failures(plan):
        install_requirements(space, f"get_requires_for_build_{kind}")
        backend = space.backend(plan.folders.source, ConfigureWatch(plan))
        name = backend.call(
            f"build_{kind}",
            str(folder),
            plan.inner_config_settings,
            str(prepared) if prepared is not None else None,
        )
    check_cmake_cache(plan)
    return folder / str(name)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def _failures(plan: Plan) -> Iterator[None]:
    """Turn a failure of the tree's own backend into the one error type."""
    try:
        yield
    except ProcessFailed as failure:
        raise TorchwheelError(inner_failure(plan, failure)) from failure
