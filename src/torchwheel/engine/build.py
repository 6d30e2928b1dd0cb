"""Carrying a plan out: from settings to a proved wheel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel.engine.carrying_out import diagnose_failures, examined_plan, print_findings
from torchwheel.engine.configure_watch import Configured, ConfigureWatch, check_cmake_cache
from torchwheel.engine.provenance import expected_wheel, provenance
from torchwheel.engine.workspace import Workspace, install_requirements, locked_folders, workspace
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import error
from torchwheel.plan.model import Plan
from torchwheel.survey import BuildRequest, cache_folder
from torchwheel.tree.model import Generation
from torchwheel.wheel.finalize import finalize, prepared_metadata
from torchwheel.wheel.verify import verify_contents


@dataclass(frozen=True)
class Built:
    """A wheel that was handed over, and the plan that it is proved against."""

    plan: Plan
    wheel: Path


def build_wheel(
    request: BuildRequest,
    wheel_directory: Path,
    metadata_directory: Path | None = None,
    *,
    editable: bool = False,
) -> Built:
    """Build the wheel, prove that it is what its name says, and put it into ``wheel_directory``.

    Args:
        request: what is asked for.
        wheel_directory: gets the wheel, under its final name only when it is complete.
        metadata_directory: what ``prepare_metadata`` wrote earlier; the wheel's metadata must equal it.
        editable: build an editable wheel.

    Raises:
        TorchwheelError: the plan has errors, the build failed, or the wheel is not what was planned.
    """
    plan = examined_plan(request)
    _require_writable(wheel_directory)
    print_findings(plan)
    with locked_folders(plan, cache_folder(request.environment)):
        space = workspace(plan, request.environment)
        built = _inner_wheel(space, metadata_directory, editable=editable)
        passed = tuple(error(problem) for problem in check_cmake_cache(plan))
        plan = replace(plan, findings=(*plan.findings, *passed))
        prepared = prepared_metadata(metadata_directory)
        wheel = finalize_wheel(plan, built, wheel_directory, prepared, request.environment, editable=editable)
        return Built(plan, wheel)


def finalize_wheel(
    plan: Plan,
    built: Path,
    wheel_directory: Path,
    prepared: bytes | None,
    environment: Mapping[str, str],
    *,
    editable: bool,
) -> Path:
    """A tree's wheel, proved against its plan and handed over; see :func:`torchwheel.wheel.finalize.finalize`."""
    expected = expected_wheel(plan, prepared, editable=editable)
    return finalize(
        built,
        wheel_directory,
        verify=lambda contents: verify_contents(contents, expected),
        skip_check=plan.settings.skip_check,
        provenance=lambda passed: provenance(plan, passed),
        environment=environment,
    )


def configure(request: BuildRequest) -> Plan:
    """Run CMake's configuring only, and prove that it took what was asked.

    Returns:
        The plan; its build directory is ready for ``cmake --build``.

    Raises:
        TorchwheelError: the plan has errors, configuring failed, or CMake took other values.
    """
    plan = examined_plan(request)
    print_findings(plan)
    with locked_folders(plan, cache_folder(request.environment)), diagnose_failures(plan):
        space = workspace(plan, request.environment)
        install_requirements(space, "get_requires_for_build_wheel")
        # An existing configuration would be left alone by setup.py, and then not be announced.
        plan.folders.cmake_cache.unlink(missing_ok=True)
        try:
            backend = space.backend(plan.folders.source, ConfigureWatch(plan, stop_after=True))
            backend.call("build_wheel", str(_empty(plan.folders.root / "wheel")), plan.inner_config_settings)
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
    with diagnose_failures(plan):
        install_requirements(space, f"get_requires_for_build_{kind}")
        backend = space.backend(plan.folders.source, ConfigureWatch(plan))
        name = backend.call(
            f"build_{kind}",
            str(folder),
            plan.inner_config_settings,
            str(prepared) if prepared is not None else None,
        )
    return folder / str(name)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _require_writable(folder: Path) -> None:
    """Find out before the build, which may take hours, that its result could not be put down.

    Raises:
        TorchwheelError: the folder cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "you have no write permission there"
    except OSError as refusal:
        reason = refusal.strerror or str(refusal)
    if reason:
        raise TorchwheelError(
            Problem(
                id="output-not-writable",
                what=f"no wheel can be put into {folder}: {reason}",
                remedy="name another output folder (pip: -w, build: -o, torchwheel build: -o)",
            )
        )
