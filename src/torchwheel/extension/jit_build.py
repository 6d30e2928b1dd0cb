"""Build the extension of ``load`` and ``load_inline``: planned, compiled and verified like for a wheel."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from torchwheel.extension.compile.flags import OPTIMISATION
from torchwheel.extension.compile.ninja_build import build_extensions
from torchwheel.extension.extension_plan import (
    Extension,
    ExtensionPlan,
    ExtensionProject,
    Language,
    language_of,
)
from torchwheel.extension.extension_survey import plan_extensions, read_extension_project
from torchwheel.extension.handover import with_variables
from torchwheel.extension.jit_arguments import Arguments
from torchwheel.extension.module_checks import verify_module
from torchwheel.extension.project_changes import with_assigned_toolkit
from torchwheel.extension.wheel_record import record_of
from torchwheel.hardware.detect import detect_gpus
from torchwheel.host.private_folder import make_private
from torchwheel.host.programs import NoAnswer
from torchwheel.host.this import with_home_and_path
from torchwheel.reporting.errors import Problem, Severity, TorchwheelError, refusal
from torchwheel.reporting.terminal import silence_output
from torchwheel.survey import BuildRequest
from torchwheel.system.files import atomic_copy, file_sha256, short_digest, write_if_changed
from torchwheel.system.paths import is_file

_LOGGER = logging.getLogger("torchwheel")
_WINDOWS = os.name == "nt"
_SUFFIX = ".pyd" if _WINDOWS else ".so"


def build_directory_of(name: str, verbose: bool = False) -> str:
    """Create a folder for the module of that name; projects pass it to :func:`load`."""
    del verbose
    root = os.environ.get("TORCH_EXTENSIONS_DIR")
    folder = Path(root) if root else _read_project(Path.cwd(), native=False).builds_folder / "modules"
    (folder / name).mkdir(parents=True, exist_ok=True)
    return str(folder / name)


def _build_failure(name: str, error: TorchwheelError) -> RuntimeError:
    text = TorchwheelError(map(with_variables, error.problems)).render()
    return RuntimeError(f"the extension {name} cannot be built: {text}")


def _write_source(folder: Path, name: str, text: str) -> str:
    path = Path(short_digest([text]), name)
    (folder / path).parent.mkdir(exist_ok=True)
    write_if_changed(folder / path, text)
    return str(path)


def build_module(arguments: Arguments, *, verbose: bool) -> tuple[Path, Path, tuple[Path, ...]]:
    """Build the module.

    Returns:
        The module, the build folder, and the plan's input files besides the sources.

    Raises:
        RuntimeError: it cannot be built.
    """
    try:
        if arguments.unsupported:
            raise refusal("jit-not-supported", feature=arguments.unsupported)
        if arguments.texts:
            folder = _read_project(Path.cwd(), native=False).builds_folder / f"inline-{arguments.name}"
            make_private(folder)
            sources = [_write_source(folder, name, text) for name, text in arguments.texts]
        else:
            folder = Path(os.path.commonpath([Path(source).parent for source in arguments.sources]))
            sources = [os.path.relpath(source, folder) for source in arguments.sources]
        return _build_and_place(
            _make_extension(arguments, sources), folder, arguments.build_directory, verbose=verbose
        )
    except TorchwheelError as error:
        raise _build_failure(arguments.name, error) from error


def _make_extension(arguments: Arguments, sources: Iterable[str]) -> Extension:
    """Describe the extension like torch.utils.cpp_extension: with assertions, and optimized only if flags say so."""
    cxx, nvcc = _unless_optimized(arguments.cflags), _unless_optimized(arguments.cuda_cflags)
    return Extension(
        name=arguments.name,
        sources=tuple(sources),
        include_dirs=arguments.include_dirs,
        flags={Language.C: cxx, Language.CXX: cxx, Language.CUDA: nvcc},
        left_out_flags=arguments.left_out_flags,
        undef_macros=("NDEBUG",),
        link_flags=arguments.ldflags,
        cuda=arguments.with_cuda,
        origin=f"torchwheel.load, extension {arguments.name}",
    )


def _unless_optimized(flags: Sequence[str]) -> tuple[str, ...]:
    is_optimized = any(flag.startswith(OPTIMISATION) for flag in flags)
    return (*(() if is_optimized else ("/Od" if _WINDOWS else "-O0",)), *flags)


def _read_project(folder: Path, *, native: bool) -> ExtensionProject:
    """Read the settings for a folder; with ``native``, for this machine's GPUs if no target is named."""
    environment = with_home_and_path(dict(with_assigned_toolkit(os.environ)))
    project = read_extension_project(BuildRequest(folder, {}, environment))
    settings = project.settings
    if not native or settings.arch is not None or settings.is_cpu or project.torch.cuda is None:
        return project
    with suppress(NoAnswer):
        if detect_gpus(environment):
            return read_extension_project(BuildRequest(folder, {"target": "native"}, environment))
    return project


def _build_and_place(
    extension: Extension, folder: Path, build_directory: str | None, *, verbose: bool
) -> tuple[Path, Path, tuple[Path, ...]]:
    """Return the verified module under a path by its content, so that a loaded one is never changed; and the rest.

    Raises:
        TorchwheelError: it cannot be built, or is not as planned.
    """
    native = any(language_of(source) is Language.CUDA for source in extension.sources)
    project = _read_project(folder, native=native)
    with nullcontext() if verbose else silence_output():
        plan = plan_extensions(project, [extension], install=True)
        # Separate folders, so that extensions of one folder, or one with other flags, do not invalidate each other.
        plan = replace(
            plan,
            folder=plan.folder.with_name(
                f"{plan.folder.name}-{short_digest([repr(replace(extension, sources=()))])}"
            ),
        )
        if not verbose:
            _log_warnings(plan)
        placed: list[Path] = []
        build_extensions(
            plan, project.environment, lambda modules: placed.append(_place_module(plan, *modules.values()))
        )
    copies = [Path(build_directory, placed[0].name)] if build_directory is not None else []
    for copy in copies:
        atomic_copy(placed[0], copy, with_times=True)
    compilers = [compiler.path for compiler in project.host.compilers]
    nvcc = plan.inputs.toolkit.nvcc if plan.inputs.toolkit else None
    texts = [folder / "pyproject.toml", project.torch.root / "version.py"]
    return placed[0], plan.folder, (*copies, *texts, *map(Path, filter(None, [*compilers, nvcc])))


def _log_warnings(plan: ExtensionPlan) -> None:
    for finding in plan.findings:
        if finding.severity is Severity.WARNING:
            _LOGGER.warning("%s", with_variables(finding.problem).render())


def _place_module(plan: ExtensionPlan, module: Path) -> Path:
    path = (
        plan.folder
        / "modules"
        / file_sha256(module).hex()[:16]
        / f"{plan.extensions[0].extension.module}{_SUFFIX}"
    )
    if not is_file(path):
        (expected,) = record_of(plan).modules
        toolkit = plan.inputs.toolkit
        problems: tuple[Problem, ...] = verify_module(module, expected, toolkit.version if toolkit else None)
        if problems:
            raise TorchwheelError(problems)
        atomic_copy(module, path, with_times=True)
    return path
