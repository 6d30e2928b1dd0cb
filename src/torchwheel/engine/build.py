"""Build a wheel: from a request to a verified wheel."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torchwheel.engine.cache import find_stored, note_user, store_wheel
from torchwheel.engine.cache_session import CompilerCache
from torchwheel.engine.configuring import Configured, Difference, of_tree
from torchwheel.engine.hooks import TreeBackend, tree_backend
from torchwheel.engine.packing import ignored_but_packed, packaging_variables
from torchwheel.engine.record import BuildInputs, invalidate_unseen_changes
from torchwheel.engine.session import Session, allow_memory, build_session, require_writable
from torchwheel.engine.staging import locked_folders, prepare_cmake_run
from torchwheel.engine.tree_wheel import finalize_wheel, of_another_build, refuse_to_replace, wheel_key
from torchwheel.engine.venv import Installing, install_toolkit_packages
from torchwheel.host.compiler_cache import CACHE_VARIABLES
from torchwheel.host.ninja import STATUS
from torchwheel.host.this import make_private, scripts_folder, temporary_folder
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.environment import JOB_VARIABLES, VERSION_VARIABLES
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.preflight.checks.published import describe_evidence
from torchwheel.preflight.effort import read_effort
from torchwheel.preflight.registry import is_about_compilers
from torchwheel.preflight.report import MISSING_KERNELS, NEEDLESS_BUILD, Report, run_preflight
from torchwheel.progress.build_record import Build, read_build_record
from torchwheel.reporting.errors import (
    Finding,
    TorchwheelError,
    announce,
    refusal,
    stop_on_errors,
    stopping_errors,
)
from torchwheel.reporting.terminal import (
    count_noun,
    format_duration,
    format_gib,
    say,
    terminal_width,
    wants_colour,
)
from torchwheel.settings import Layer
from torchwheel.survey import BuildRequest, survey, with_installed_toolkit
from torchwheel.system.files import atomic_copy, cannot_write, folder_beside, hand_over
from torchwheel.toolkit.assemble import assemble_toolkit, make_linked_toolkit
from torchwheel.tree.source_tree import Generation
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.finalize import prepared_metadata
from torchwheel.wheel.metadata import read_metadata_text

_log = logging.getLogger(__name__)
_SAID_BEFORE = (*NEEDLESS_BUILD, "prerelease-version")
"""Findings of which a second build in a folder says less: the user has decided."""


@dataclass(frozen=True)
class Built:
    plan: Plan
    findings: tuple[Finding, ...]
    wheel: Path
    seconds: float
    compiled: int = 0

    @property
    def took(self) -> str:
        """The duration in words: ``2 h 5 min``, ``3 min 20 s``, ``7 s``."""
        return format_duration(self.seconds)


def build_wheel(
    request: BuildRequest, wheel_directory: Path, metadata_directory: Path | None = None, kind: str = "wheel"
) -> Built:
    """Build the wheel, verify it against its plan, and put it into ``wheel_directory`` when it is complete.

    Its metadata must equal those that ``prepare_metadata`` has put into ``metadata_directory``.
    """
    began, editable = time.monotonic(), kind == "editable"
    inputs = survey(request)
    plan = make_plan(inputs)
    replaced = of_another_build(plan, wheel_directory / plan.wheel_name)
    prepared = prepared_metadata(metadata_directory)
    if not _is_stopped(plan, replaced):
        require_writable(wheel_directory)
    plan, report = _run_preflight(inputs, plan, request, replaced)
    findings = (*report.recorded, *replaced)
    _announce_build(plan, report)
    # The user's own folder may be edited during the build.
    stores = plan.folders.staged and not editable
    with locked_folders(plan, request.environment) as (new, variables):
        key = partial(wheel_key, plan, new, request.environment, variables)
        read = _build_inputs(plan, request.environment, variables)
        if stores and (stored := _look_up(plan, key, read, prepared)):
            say(
                f"nothing has changed since {stored.name} was built and proved: it is taken from the wheel store"
            )
            wheel = _copy_to_folder(stored, wheel_directory)
            _announce_missing_kernels(findings)
            return Built(plan, findings, wheel, time.monotonic() - began)
        # Install packages first, so that they are older than the objects compiled with them.
        backend = tree_backend(plan, request.environment).with_requirements(kind)
        prepare_cmake_run(plan)
        cache = _compiler_cache(plan)
        with build_session(_describe_build(plan), read, plan.folders.cache, cache) as session:
            built = _inner_wheel(backend, metadata_directory, kind, session)
            new = (*new, *ignored_but_packed(plan, built))
            # Another build may have ended meanwhile; an editable wheel's name is certain only now.
            name = built.name if editable else plan.wheel_name
            late = () if replaced else refuse_to_replace(plan, wheel_directory / name)
            findings = (*findings, *of_tree(plan).check_values(), *late)
            folder = _make_empty(plan.folders.root / "finished") if stores else wheel_directory
            wheel = finalize_wheel(
                plan, built, folder, prepared, request.environment, findings, new, editable=editable
            )
        if stores:
            # A new key, because the build has changed the records that are part of it.
            wheel = _copy_to_folder(_put_into_store(plan, wheel, key()), wheel_directory)
        if not editable:
            _announce_missing_kernels(findings)
        return Built(plan, findings, wheel, time.monotonic() - began, session.follower.compiled)


def _look_up(
    plan: Plan, key: Callable[[], str | None], read: BuildInputs, prepared: bytes | None
) -> Path | None:
    """Look up the wheel in the store; its METADATA must be the one that a prepare hook returned."""
    with invalidate_unseen_changes(read):
        stored = find_stored(plan.folders.cache, key(), plan.wheel_name)
    if stored is None or prepared is None:
        return stored
    with open_wheel(stored) as archive:
        same = bytes(read_metadata_text(archive, "METADATA")) == prepared
    if not same:
        _log.info("wheel store: cache miss; the prepared metadata has changed")
    return stored if same else None


def _put_into_store(plan: Plan, wheel: Path, key: str | None) -> Path:
    """Put a finished wheel into the wheel store; a failure is ignored, and the wheel stays in its folder."""
    if key is not None:
        with suppress(OSError):
            return store_wheel(plan.folders.cache, key, wheel, plan.folders.root, plan.tree.root)
    return wheel


def _copy_to_folder(wheel: Path, folder: Path) -> Path:
    target = folder / wheel.name
    try:
        with folder_beside(target) as beside:
            copy = beside / wheel.name
            atomic_copy(wheel, copy)
            hand_over(copy, target)
    except OSError as error:
        raise TorchwheelError(cannot_write(target, error)) from error
    return target


def _build_inputs(plan: Plan, environment: Mapping[str, str], variables: str) -> BuildInputs:
    folders = plan.folders
    planned = {one.name: one.value for one in plan.variables if not one.prepend}
    # The build finds programs in its environment first, as the tree's own backend does.
    search = os.pathsep.join([str(scripts_folder(plan.python_executable)), environment.get("PATH", "")])
    return BuildInputs(
        folders.build,
        folders.source,
        {**environment, **planned, "PATH": search},
        variables,
        {name: planned[name] for name in VERSION_VARIABLES},
        (folders.source,) if folders.staged else (),
    )


def _describe_build(plan: Plan) -> Build:
    folders = plan.folders
    return Build(
        name=plan.wheel_name,
        tree=str(plan.tree.root),
        source=str(folders.source),
        folder=str(folders.build),
        log=str(folders.log),
        jobs=plan.jobs.max_jobs,
    )


def configure(request: BuildRequest) -> tuple[Plan, Report, tuple[Difference, ...]]:
    """Run only CMake's configure step; returns also the options for which CMake has another value, if that may pass."""
    plan, report = preflight_request(request)
    _announce_build(plan, report)
    with locked_folders(plan, request.environment) as (_new, variables):
        read = _build_inputs(plan, request.environment, variables)
        backend = tree_backend(plan, request.environment).with_requirements("wheel")
        # setup.py would not run CMake again with an existing configuration.
        plan.folders.cmake_cache.unlink(missing_ok=True)
        folder = _make_empty(plan.folders.root / "wheel")
        try:
            cache = _compiler_cache(plan)
            with invalidate_unseen_changes(read), cache.running(_without_defaults(backend, cache)) as whole:
                # PEP 517 has no hook that only configures, so the build is stopped right after CMake's part.
                backend.build("wheel", folder, whole, of_tree(plan).watch(stop_after=True))
        except Configured:
            return plan, report, of_tree(plan).find_unproved()
    raise refusal("configuring-not-seen", origin=plan.folders.build, log=plan.folders.log)


def preflight_request(request: BuildRequest) -> tuple[Plan, Report]:
    """Plan the build, install its CUDA toolkit if needed, and run doctor's checks."""
    inputs = survey(request)
    return _run_preflight(inputs, make_plan(inputs), request)


def _run_preflight(
    inputs: Inputs, plan: Plan, request: BuildRequest, more: tuple[Finding, ...] = ()
) -> tuple[Plan, Report]:
    """Run the checks before a build; stop at all errors at once: the plan's, theirs and those in ``more``."""
    if not _is_stopped(plan, more):
        make_private(plan.folders.cache)
        plan = _with_toolkit(inputs, plan, request)
    report = run_preflight(plan, request.environment)
    if errors := stopping_errors((*report.findings, *more), plan.settings.skip_check):
        says_more = any(is_about_compilers(finding.id) for finding in errors)
        notes = [finding for finding in report.findings if says_more and finding.id in NEEDLESS_BUILD]
        raise TorchwheelError(dict.fromkeys(finding.problem for finding in errors), notes)
    return plan, report


def _is_stopped(plan: Plan, more: tuple[Finding, ...]) -> bool:
    """Whether the build will stop anyway, so that nothing need be installed for it."""
    return bool(stopping_errors((*plan.findings, *more), plan.settings.skip_check))


def _with_toolkit(inputs: Inputs, plan: Plan, request: BuildRequest) -> Plan:
    """Install the plan's toolkit if needed; a plan with installed packages is made again with their versions."""
    if not plan.toolkit_requires:
        if plan.toolkit is not None:
            make_linked_toolkit(plan.toolkit, plan.folders.cache)
        return plan
    cache = plan.folders.cache
    if plan.toolkit_packages is None and plan.toolkit is not None:
        tag = plan.host.python.abi_tag
        installing = Installing(plan.tree.root, request.environment)
        install_toolkit_packages(cache, plan.toolkit.version, plan.toolkit_requires, tag, installing)
        plan = make_plan(with_installed_toolkit(inputs, request.environment))
        stop_on_errors(plan.findings, plan.settings.skip_check)
    if plan.toolkit_packages is None:
        raise refusal("toolkit-packages-missing", package=plan.toolkit_requires[0])
    note_user(Path(assemble_toolkit(plan.toolkit_packages, cache).root), plan.tree.root)
    return plan


def _announce_build(plan: Plan, report: Report) -> None:
    purpose = ", ".join(plan.settings.target) or str(plan.architectures)
    place = f"{count_noun(plan.jobs.max_jobs, 'job')} in {plan.folders.root}, log {plan.folders.log}"
    say(f"{plan.wheel_name} for {purpose}, {place}")
    if takes := read_effort(plan, here=True):
        say(f"it takes {takes.span} ({takes.basis}), and up to {format_gib(takes.disk)}")
    if untried := describe_evidence(plan, tried=False):
        say(untried)
    findings = report.findings
    if read_build_record(plan.folders.record) is not None:
        findings = tuple(one.briefly() if one.id in _SAID_BEFORE else one for one in findings)
    columns = terminal_width() - len("torchwheel: ")
    for finding in findings:
        if finding.id in NEEDLESS_BUILD:
            say("\n".join(finding.lines(columns, "note: ", colour=wants_colour())))
    announce(findings, plan.settings.skip_check)


def _announce_missing_kernels(findings: Iterable[Finding]) -> None:
    """Print the kernels of official wheels that this one lacks, and how to add them."""
    for finding in findings:
        if finding.id == MISSING_KERNELS:
            say("\n".join(finding.lines(terminal_width(), colour=wants_colour())))


def _compiler_cache(plan: Plan) -> CompilerCache:
    defaults = {
        v.name: v.value for v in plan.variables if v.layer is Layer.DEFAULT and v.name in CACHE_VARIABLES
    }
    return CompilerCache(plan.compiler_cache, defaults, plan.folders.root)


def _without_defaults(backend: TreeBackend, cache: CompilerCache) -> dict[str, str]:
    """The backend's environment without the cache's defaults, which ccache's own configuration file outranks."""
    return {name: value for name, value in backend.environment.items() if name not in cache.defaults}


def _inner_wheel(backend: TreeBackend, metadata_directory: Path | None, kind: str, session: Session) -> Path:
    plan = backend.plan
    # Preparing setup.py's metadata would need a whole build, so there is none to pass on.
    prepared = metadata_directory if plan.tree.generation is Generation.SCIKIT_BUILD_CORE else None
    folder = _make_empty(plan.folders.root / "wheel")
    shutil.rmtree(temporary_folder(plan.folders.temporary), ignore_errors=True)

    def build(whole: Mapping[str, str], jobs: int) -> str:
        allow_memory(plan, jobs)
        count = {name: str(jobs) for name in JOB_VARIABLES if name in whole}
        with packaging_variables(plan) as variables:
            # The progress is parsed from ninja's lines, so the user's own format cannot apply.
            environment = {**whole, **variables, **count, "NINJA_STATUS": STATUS}
            follow = session.follower.follow_session
            return backend.build(kind, folder, environment, of_tree(plan).watch(), prepared, follow)

    return folder / session.run(_without_defaults(backend, session.compiler_cache), build)


def _make_empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
