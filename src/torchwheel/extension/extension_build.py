"""Build the wheel, metadata and sdist of a project with extensions."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from torchwheel.engine.configuring import Configuring, names_files
from torchwheel.engine.record import BuildInputs
from torchwheel.engine.relevant_environment import is_irrelevant, names_in_scripts
from torchwheel.engine.sdist import rewrite_sdist
from torchwheel.engine.session import Session, held_folder, require_writable
from torchwheel.extension.compile.ninja_build import project_session
from torchwheel.extension.extension_plan import ExtensionProject
from torchwheel.extension.extension_project import NINJA, HookRequest, ProjectKind, read_hook_request
from torchwheel.extension.extension_survey import ask_compilers, project_cache
from torchwheel.extension.extension_wheel import finalize_metadata, finalize_wheel
from torchwheel.extension.handover import Handover
from torchwheel.extension.inner_backend import call_inner
from torchwheel.extension.options import cuda_left_out, has_extension_tables
from torchwheel.extension.planning import (
    build_folder,
    compiler_findings,
    extension_jobs,
    folder_findings,
    scikit_build_tables,
    tools_identity,
)
from torchwheel.extension.wheel_record import (
    WheelRecord,
    is_labelled,
    labelled_version,
    record_if_torch,
    refuse_builds_in_sdist,
    sdist_files,
    sdist_label,
)
from torchwheel.host.compilers import command_words, join_words
from torchwheel.host.machine import Compiler
from torchwheel.host.ninja import find_ninja
from torchwheel.host.this import make_private, temporary_folder
from torchwheel.plan.build_plan import hash_facts
from torchwheel.plan.output import decisions_document
from torchwheel.reporting.errors import TorchwheelError, announce, error, refusal, stop_on_errors
from torchwheel.reporting.masking import mask_value
from torchwheel.reporting.terminal import count_noun, format_duration, say
from torchwheel.reproducible import source_date
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, ConfigSettings, argument_words
from torchwheel.settings.project import read_project
from torchwheel.survey import BuildRequest
from torchwheel.system.files import atomic_copy
from torchwheel.torch_install.installed_torch import torch_findings
from torchwheel.tree.source_files import source_files

# Settings of scikit-build-core's steps after CMake.
_ABOUT_THE_PACKAGE = ("editable.", "install.", "logging.", "messages.", "metadata.", "sdist.", "wheel.")


def build_wheel(
    request: BuildRequest, wheel_directory: Path, metadata_directory: Path | None, *, editable: bool
) -> str:
    began = time.monotonic()
    build = _prepare_build(request)
    in_place = build.request.kind is ProjectKind.CMAKE and "inplace" in _editable_modes(build.request)
    if editable and in_place:
        # Modules in the checkout would be neither labelled nor verified.
        raise refusal("editable-in-place", origin="editable.mode of scikit-build-core")
    require_writable(wheel_directory)
    project, settings = build.request.project, build.request.project.settings
    # Without a request the plan says it, which the inner process makes.
    purpose = ", ".join(settings.target) or settings.arch or "what PyTorch was built for"
    place = f"{count_noun(build.jobs, 'job')} in {build.folder}, log {build.log}"
    name = project.pyproject.table("project").get("name") or project.folder.name
    say(f"a wheel of {name} for {purpose}, {place}")
    hook = "build_editable" if editable else "build_wheel"
    with _call_hook(build, hook) as (built, record):
        name = built.name
        if record is None:
            atomic_copy(built, wheel_directory / name)
        else:
            own = metadata_directory
            name = finalize_wheel(record, project, built, wheel_directory, own, editable=editable)
        say(f"{name} took {format_duration(time.monotonic() - began)}")
        return name


def prepare_metadata(request: BuildRequest, metadata_directory: Path, *, editable: bool) -> str:
    """Write metadata of a project with tables; returns the name of the ``.dist-info`` folder."""
    build = _prepare_build(request)
    metadata_directory.mkdir(parents=True, exist_ok=True)
    hook = f"prepare_metadata_for_build_{'editable' if editable else 'wheel'}"
    with _call_hook(build, hook, metadata_directory) as (made, record):
        return made.name if record is None else finalize_metadata(record, made)


def build_sdist(request: BuildRequest, sdist_directory: Path) -> str:
    """Write the source distribution; returns its file name.

    Its version is the wheel's, see :mod:`torchwheel.extension.wheel_record`; a CMake project with a target is
    configured for that.
    """
    hook_request = read_hook_request(request)
    project = hook_request.project
    # Backends write directly under the final name: two at a time, or a killed one, would leave an incomplete file.
    with tempfile.TemporaryDirectory(prefix="torchwheel-sdist-") as folder:
        if hook_request.kind is not ProjectKind.CMAKE:
            # setuptools_distribution names it there.
            handover = Handover(project.folder, hook_request.own, Path(folder, "handover"))
            inner = dict(hook_request.inner)
            name = str(call_inner(hook_request, "build_sdist", folder, inner, handover=handover))
            if source_date(project.environment) is not None:
                # setuptools keeps times, permissions and owners of files.
                version = name.removesuffix(".tar.gz").rpartition("-")[2]
                return rewrite_sdist(Path(folder, name), sdist_directory, version, {}, project.environment)
            atomic_copy(Path(folder, name), sdist_directory / name)
            return name
        record = None
        if is_labelled(project.settings):
            record = record_if_torch(lambda: _configured_record(request, Path(folder, "configured")))
        name = str(call_inner(hook_request, "build_sdist", folder, dict(hook_request.inner)))
        refuse_builds_in_sdist(project, Path(folder, name))
        own = name.removesuffix(".tar.gz").rpartition("-")[2]
        label = sdist_label(project.settings, record)
        version = labelled_version(own, project.settings.package_version, label)
        files = sdist_files(project, version, record)
        return rewrite_sdist(Path(folder, name), sdist_directory, version, files, project.environment)


def _configured_record(request: BuildRequest, folder: Path) -> WheelRecord | None:
    with _call_hook(_prepare_build(request), "build_sdist", folder, {"sdist.cmake": "true"}) as (_, record):
        return record


def metadata_is_cheap(project: Path) -> bool:
    """Whether metadata is available without building."""
    try:
        return has_extension_tables(read_project(project))
    except TorchwheelError:
        return False


@dataclass(frozen=True)
class _Build:
    """The state before the inner backend runs; the build folder is a persistent one."""

    request: HookRequest
    folder: Path
    jobs: int

    @property
    def log(self) -> Path:
        return self.folder / "backend.log"

    @property
    def cmake_folder(self) -> Path:
        return self.folder / "cmake"

    @cached_property
    def variables(self) -> dict[str, str]:
        project = self.request.project
        named = names_in_scripts(project.folder, source_files(project.folder).files)
        return {
            name: value
            for name, value in project.environment.items()
            if name == "PATH" or not is_irrelevant(name, named)
        }


def _prepare_build(request: BuildRequest) -> _Build:
    hook_request = read_hook_request(request)
    project = hook_request.project
    stop_on_errors(project.findings, project.settings.skip_check)
    make_private(project.cache)
    if hook_request.kind is not ProjectKind.SETUP_PY and find_ninja(project.environment) is None:
        # PyTorch's own command would compile without it.
        raise refusal("no-ninja/extension")
    (cxx,), unanswered = ask_compilers([project.host.find_compiler("cxx")])
    compilers = compiler_findings(project, cxx, unanswered)
    folders = folder_findings(project) if hook_request.kind is ProjectKind.CMAKE else ()
    stop_on_errors([*folders, *torch_findings(project.torch), *compilers], project.settings.skip_check)
    announce(project.findings, project.settings.skip_check)
    if hook_request.kind is not ProjectKind.TABLES:
        stop_on_errors(map(error, cuda_left_out(project)), project.settings.skip_check)
    jobs = extension_jobs(project, cuda=project.builds_cuda)
    return _Build(hook_request, _kept_folder(project, cxx), jobs.max_jobs)


def _kept_folder(project: ExtensionProject, cxx: Compiler | None) -> Path:
    """The folder of a project's build; the plan, which is made during it, chooses that of the objects."""
    settings = project.settings
    identity = tools_identity(project, project.torch, cxx=cxx)
    labels = settings.arch.labels if settings.arch else ("cpu",) if settings.is_cpu else ()
    folder = build_folder(project, identity)
    return folder.with_name("-".join([folder.name, *labels]))


@contextmanager
def _call_hook(
    build: _Build, hook: str, folder: Path | None = None, config: ConfigSettings | None = None
) -> Iterator[tuple[Path, WheelRecord | None]]:
    """Call a hook of the inner backend; yields its result, and the planned wheel (None without extensions of PyTorch).

    The build folder is locked meanwhile. The result is in ``folder``, or in one that is deleted.
    """
    project = build.request.project
    with held_folder(build.folder, project.folder, project.cache, build.folder / "backend.lock"):
        # Under the lock, these can only be from a killed build.
        for leftover in build.folder.glob("wheel-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        shutil.rmtree(temporary_folder(build.folder / "tmp"), ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix="wheel-", dir=build.folder))
        try:
            handover = Handover(project.folder, build.request.own, temporary / "handover")
            build.log.unlink(missing_ok=True)
            place = folder or temporary
            given = {**_inner_config(build), **(config or {})}
            configuring = _configuring_of(build, hook, given)
            configuring.drop_stale_cache()
            cmake = build.request.kind is ProjectKind.CMAKE
            variables = _hook_variables(build)
            call = partial(
                call_inner,
                build.request,
                hook,
                str(place),
                given,
                handover=handover,
                temporary=build.folder / "tmp",
                log=build.log,
                watch=configuring.watch() if cmake else None,
            )
            if not cmake or hook not in ("build_wheel", "build_editable"):
                yield place / call(variables=variables), _wheel_record(build, handover)
                return
            with _compiling(build) as session:
                with session.compiling(project.environment) as whole:
                    made = call(variables={**whole, **variables}, follow=session.follower.follow_session)
                yield place / made, _wheel_record(build, handover)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _configuring_of(build: _Build, hook: str, given: ConfigSettings) -> Configuring:
    """Describe CMake's project in a build's folder, which builds with other ``-C`` values and variables share."""
    project = build.request.project
    asked = {
        # scikit-build-core's overrides, and CMake files, distinguish wheels and editable ones.
        "state": hook.removeprefix("prepare_metadata_for_"),
        "settings": {key: value for key, value in given.items() if not key.startswith(_ABOUT_THE_PACKAGE)},
        "variables": build.variables,
        "each-time": time.time_ns() if names_files(_cmake_arguments(project, given)) else 0,
    }
    return Configuring(
        build.folder,
        build.cmake_folder,
        project.folder,
        build.log,
        project.settings.skip_check,
        hash_facts(asked),
    )


def _compiling(build: _Build) -> AbstractContextManager[Session]:
    """Return the session of CMake's build; torchwheel's own ninja has one where it is started."""
    project = build.request.project
    variables = hash_facts(build.variables)
    read = BuildInputs(build.cmake_folder, project.folder, project.environment, variables)
    return project_session(project, project_cache(project), read, build.log, build.jobs)


def _cmake_arguments(project: ExtensionProject, given: ConfigSettings) -> list[str]:
    stated = [table.get("args", []) for table in scikit_build_tables(project, "cmake")]
    words = [word for value in (*stated, given.get(CMAKE_ARGUMENTS, [])) for word in argument_words(value)]
    # Last, because scikit-build-core appends this variable after all other arguments.
    words += command_words(project.environment.get("CMAKE_ARGS", ""), project.host.system)
    return list(map(str, words))


def _editable_modes(request: HookRequest) -> Iterator[object]:
    project = request.project
    yield from (table.get("mode") for table in scikit_build_tables(project, "editable"))
    yield request.inner.get("editable.mode")
    yield project.environment.get("SKBUILD_EDITABLE_MODE")


def _hook_variables(build: _Build) -> dict[str, str]:
    """Variables for the inner backend, unless the user's environment has them."""
    variables = {"CMAKE_GENERATOR": NINJA, "CMAKE_BUILD_PARALLEL_LEVEL": str(build.jobs)}
    host = build.request.project.host
    for name, compiler in (("CC", host.find_compiler("c")), ("CXX", host.find_compiler("cxx"))):
        if compiler is not None and compiler.found:
            variables[name] = join_words(compiler.command, windows=host.system == "Windows")
    return variables


def _inner_config(build: _Build) -> dict[str, Any]:
    """The ``-C`` values for the inner backend; the user's override torchwheel's."""
    request = build.request
    if request.kind is not ProjectKind.CMAKE:
        return dict(request.inner)
    own = {
        "cmake.build-type": request.project.settings.build_type,
        # The folder of TorchWheelConfig.cmake.
        "cmake.define.TorchWheel_ROOT": str(Path(__file__).with_name("cmake")),
        **config_for_cmake(request.project.folder, request.own),
    }
    return {**own, **request.inner, "build-dir": str(build.cmake_folder)}


def config_for_cmake(project: Path, config_settings: ConfigSettings) -> dict[str, str]:
    """Pass the settings to TorchWheelConfig.cmake, without a variable with a secret: CMake keeps them in a file."""
    passed_on = {
        key: value
        for key, value in config_settings.items()
        if not key.startswith("env.") or mask_value(key, str(value)) == str(value)
    }
    return {
        "cmake.define.TORCHWHEEL_PROJECT_DIR": str(project),
        "cmake.define.TORCHWHEEL_CONFIG_SETTINGS": json.dumps(passed_on, sort_keys=True),
    }


def _wheel_record(build: _Build, handover: Handover) -> WheelRecord | None:
    """The wheel as planned in the inner process, where the hook's own variables are no settings of the user's."""
    project, record = build.request.project, handover.record()
    if record is None:
        return None
    own = {f"variable {name}" for name in _hook_variables(build) if not project.environment.get(name)}
    layers = [one for one in record.provenance["layers"] if one["origin"] not in own]
    # Variables that were removed do not reach that process.
    document = decisions_document(project.settings, project.findings, reproducible=project.reproducible)
    planned = [one for one in record.provenance["findings"] if one not in document["findings"]]
    findings = [*document["findings"], *planned]
    return replace(record, provenance={**record.provenance, "layers": layers, "findings": findings})
