"""Make the plan of a project's extensions: a pure function of the settings and the survey."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from torchwheel.extension.compile.flags import own_architectures, raised_standard
from torchwheel.extension.compile.units import SOURCE, TOOLKIT, TORCH, layout_of
from torchwheel.extension.extension_plan import (
    Extension,
    ExtensionInputs,
    ExtensionPlan,
    ExtensionProject,
    Language,
    PlannedExtension,
)
from torchwheel.extension.options import has_extension_tables
from torchwheel.extension.plan_findings import plan_findings, sdist_problems
from torchwheel.extension.sources import matches_pattern
from torchwheel.extension.target_choice import SharedWarning, choose_targets
from torchwheel.extension.torch_install.installed_torch import InstalledTorch
from torchwheel.extension.wheel_naming import (
    PythonBuild,
    bound_release,
    common_stable_abi,
    extension_label,
    has_limited_api,
    torch_requirements,
)
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compilers import CUDA_FLAGS, NVCC_FLAGS, SEARCH_PATHS, command_words
from torchwheel.host.jobs import Jobs, jobs_for
from torchwheel.host.machine import Compiler
from torchwheel.plan.fingerprint import hash_facts
from torchwheel.plan.naming import label_problems
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, stopping_errors, warning
from torchwheel.toolkit.read_toolkit import release_of
from torchwheel.wheel.metadata import find_contradictions

_NVCC_THREADS = 4
# The variables that compilers and linkers read. Sources: the manuals of GCC (Environment
# Variables Affecting GCC), ld (-rpath), nvcc (NVCC Environment Variables) and MSVC (CL environment variables).
_READ_BY_COMPILERS = (
    *SEARCH_PATHS, "LD_RUN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", *NVCC_FLAGS, "NVCC_CCBIN",
    "CCC_OVERRIDE_OPTIONS", "MACOSX_DEPLOYMENT_TARGET", "SDKROOT", "CL", "_CL_", "LINK", "_LINK_", "INCLUDE", "LIB",
    "LIBPATH",
)  # fmt: skip


def make_extension_plan(inputs: ExtensionInputs) -> ExtensionPlan:
    """Make the plan from its inputs alone.

    Problems are the plan's findings; a plan with errors that are not skipped has no steps.
    """
    project, toolkit = inputs.project, inputs.toolkit
    settings = project.settings
    choices = [_choose_architectures(extension, inputs) for extension in inputs.extensions]
    findings = [*plan_findings(inputs), *(f for choice in choices for f in choice.findings)]
    findings += [*_shared_warnings(choices), *_kernels_for_other_hardware(choices)]
    if any(extension.cuda_sources for extension in inputs.extensions):
        findings += map(error, _architectures_of_variables(project))
    failed = bool(stopping_errors(findings, settings.skip_check))
    failed |= any(one.extension.cuda_sources and not (toolkit and one.architectures) for one in choices)
    tools = tools_identity(project, inputs.torch, toolkit.identity if toolkit else "", inputs.cxx)
    identity = hash_facts([tools, *(str(choice.architectures) for choice in choices)])
    # Other tools or another PyTorch behind the same links need another folder, because the commands are equal. GPUs do
    # not: in one folder a compiler cache hits for all of them.
    below = f"{inputs.below}-{tools}" if inputs.below else ""
    layout = layout_of(project.host.system, str(project.folder), _linked_folders(inputs, below))
    planned = () if failed or inputs.cxx is None else (_plan_extension(one, inputs) for one in choices)
    architectures = ArchitectureList.union(choice.architectures for choice in choices)
    stable_abi = None if failed else common_stable_abi(one.stable_abi for one in inputs.extensions)
    release = toolkit.version if toolkit else None
    label = extension_label(
        release,
        architectures,
        inputs.torch.version,
        stable=stable_abi is not None,
        build_type=settings.build_type,
        dirty=inputs.checkout.dirty,
    )
    label = label if settings.local_version is None else settings.local_version
    findings += map(error, sdist_problems(inputs, label))
    # CMake's functions plan single extensions, some of which may have no device code.
    is_whole = not inputs.below or has_extension_tables(project.pyproject)
    if is_whole and not failed:
        bound = None if stable_abi is not None else bound_release(inputs.torch.version)
        findings += map(error, label_problems(settings, label, release, architectures, bound))
        findings += map(
            error, _find_contradictions(project, torch_requirements(inputs.torch.version, stable_abi))
        )
    return ExtensionPlan(
        inputs=inputs,
        architectures=architectures,
        extensions=tuple(planned),
        jobs=extension_jobs(project, cuda=toolkit is not None),
        identity=identity,
        folder=build_folder(project, identity),
        below=below,
        links={name: Path(str(folder)) for name, folder in layout.links.items()},
        local_version=label,
        requires=torch_requirements(inputs.torch.version, stable_abi),
        findings=tuple(sorted(findings, key=lambda finding: finding.severity.rank)),
    )


def _find_contradictions(project: ExtensionProject, bounds: tuple[str, ...]) -> Iterator[Problem]:
    """Report ``dependencies`` of the project that contradict the wheel's requirements.

    Dependencies that the inner backend computes are known only with the metadata.
    """
    dependencies = project.pyproject.table("project").get("dependencies")
    if isinstance(dependencies, list):
        required = [one for one in dependencies if isinstance(one, str)]
        yield from find_contradictions(required, bounds, "pyproject.toml: project.dependencies")


def _shared_warnings(choices: Sequence[_Choice]) -> Iterator[Finding]:
    """Report what several extensions share once."""
    shared: dict[SharedWarning, list[Extension]] = {}
    for choice in choices:
        for one in choice.warnings:
            shared.setdefault(one, []).append(choice.extension)
    return (one.about(extensions) for one, extensions in shared.items())


def _kernels_for_other_hardware(choices: Sequence[_Choice]) -> Iterator[Finding]:
    """Report extensions whose kernels do not run on the target: an error where no other one's do."""
    missed = [choice.missed for choice in choices if choice.missed is not None]
    alone = len(missed) == sum(bool(choice.extension.cuda_sources) for choice in choices)
    for values in missed:
        if alone:
            yield error(Problem.of("architecture-flags-miss-target", **values))
        else:
            yield warning(Problem.of("architecture-flags-miss-target/beside-others", **values))


@dataclass(frozen=True)
class _Choice:
    """The architectures of one extension.

    Attributes:
        extension: the extension, without flags for architectures.
        warnings: what other extensions may share.
        options: nvcc's options for sources without separate architectures, if they are the project's own.
        missed: see :class:`TargetChoice`.
        usual: the architectures of sources without separate ones.
    """

    extension: Extension
    architectures: ArchitectureList | None
    findings: tuple[Finding, ...] = ()
    warnings: tuple[SharedWarning, ...] = ()
    options: tuple[str, ...] = ()
    missed: Mapping[str, object] | None = None
    usual: ArchitectureList | None = None


def _choose_architectures(extension: Extension, inputs: ExtensionInputs) -> _Choice:
    """Choose a source's own architectures, else those of settings and the project's flags, else PyTorch's own."""
    # The stable ABI implies Python's limited API, if this Python supports it.
    limited = extension.wants_limited_api and has_limited_api(inputs.project.host.python.abi_tag)
    extension = replace(extension, limited_api=limited)
    extension, warnings = _with_standard(extension, inputs)
    if not extension.cuda_sources:
        return _Choice(extension, None, warnings=warnings)
    own = choose_targets(extension, inputs.project.settings)
    findings, warnings = list(own.findings), (*warnings, *own.warnings)
    chosen = own.architectures or extension.default_architectures or _buildable_architectures(inputs)
    if chosen is None:
        # A PyTorch without CUDA has none for any target, and is reported itself.
        if inputs.torch.cuda is not None and not findings:
            findings.append(error(_no_architectures(extension, inputs)))
        return _Choice(extension, None, tuple(findings), warnings)
    cleaned = replace(extension, flags={**extension.flags, Language.CUDA: own.other_flags})
    architectures = ArchitectureList.union(
        _of_source(extension, one) or chosen for one in extension.cuda_sources
    )
    return _Choice(cleaned, architectures, tuple(findings), warnings, own.options, own.missed, chosen)


def _with_standard(
    extension: Extension, inputs: ExtensionInputs
) -> tuple[Extension, tuple[SharedWarning, ...]]:
    """Raise the C++ standard in an extension's flags to the one that PyTorch's headers need.

    torch.utils.cpp_extension keeps such a flag, and then sources with those headers do not compile. The headers of the
    stable ABI accept older standards.
    """
    least = inputs.torch.cxx_standard
    if extension.stable_abi is not None:
        return extension, ()
    raised = {
        language: raised_standard(flags, least) if language is not Language.C else flags
        for language, flags in extension.flags.items()
    }
    changed = [
        flag
        for language, flags in extension.flags.items()
        for flag, new in zip(flags, raised[language], strict=True)
        if flag != new
    ]
    if not changed:
        return extension, ()
    flags = ", ".join(dict.fromkeys(changed))
    shared = SharedWarning.of("cxx-standard-raised", flags=flags, standard=least, torch=inputs.torch.version)
    return replace(extension, flags=raised), (shared,)


def _of_source(extension: Extension, source: str) -> ArchitectureList | None:
    own = extension.source_architectures.items()
    return next((architectures for pattern, architectures in own if matches_pattern(source, pattern)), None)


def _buildable_architectures(inputs: ExtensionInputs) -> ArchitectureList | None:
    """PyTorch's own architectures that the toolkit can compile."""
    own, toolkit = inputs.torch_architectures, inputs.toolkit
    if own is None or toolkit is None:
        return own
    release = release_of(toolkit)
    if release is None:
        return own
    kept = [target for target in own.targets if release.can_compile(target.architecture)]
    return ArchitectureList.of(kept) if kept else None


def _plan_extension(choice: _Choice, inputs: ExtensionInputs) -> PlannedExtension:
    return PlannedExtension(
        choice.extension,
        _file_name(choice.extension, inputs.python),
        choice.architectures,
        choice.options,
        _nvcc_threads(inputs.extensions),
        choice.usual,
    )


def _file_name(extension: Extension, python: PythonBuild) -> str:
    suffix = python.limited_suffix if extension.limited_api else python.extension_suffix
    return extension.name.replace(".", "/") + suffix


def _nvcc_threads(extensions: Sequence[Extension]) -> int:
    """The number of architectures that nvcc compiles at once: more than one if there are few files to use the cores.

    It does not depend on ``jobs``, so other jobs do not recompile anything, and compiler caches hit.
    """
    files = sum(len(extension.sources) for extension in extensions)
    return max(1, _NVCC_THREADS // max(1, files))


def _linked_folders(inputs: ExtensionInputs, below: str) -> dict[str, str]:
    folders = {TORCH: str(inputs.torch.root)}
    if inputs.toolkit is not None:
        folders[TOOLKIT] = inputs.toolkit.root
    # Its objects are below the folder with the identity, but the link is not: see _FOLDER in cmake/configure.py.
    source = PurePosixPath(inputs.below).parent / SOURCE
    links = {PurePosixPath(below, name): folder for name, folder in folders.items()}
    return {str(link): folder for link, folder in {source: str(inputs.project.folder), **links}.items()}


def build_folder(project: ExtensionProject, identity: str) -> Path:
    """A folder for each project and each combination of tools and architectures, so that none invalidates another."""
    # scikit-build-core reads braces as a placeholder, CMake a semicolon as the end of a path.
    plain = re.sub(r"[^\w.+ -]", "-", project.folder.name)
    # Files that CMake installs but does not build would be from another build.
    parts = [table for table in scikit_build_tables(project, "build") if "targets" in table]
    return project.builds_folder / f"{plain}-{hash_facts([str(project.folder), identity, *parts])}"


def scikit_build_tables(project: ExtensionProject, name: str) -> list[dict[str, Any]]:
    """The tables of that name in ``[tool.scikit-build]`` and in its overrides, whether they apply or not."""
    whole = project.pyproject.table("tool", "scikit-build")
    overrides = whole.get("overrides")
    tables = [whole, *(overrides if isinstance(overrides, list) else ())]
    return [found for one in tables if isinstance(one, dict) and isinstance(found := one.get(name), dict)]


def tools_identity(
    project: ExtensionProject, torch: InstalledTorch, toolkit: str = "", cxx: Compiler | None = None
) -> str:
    """Return a text that changes with the tools and their inputs, not with the project's path.

    Args:
        cxx: the C++ compiler with its version, because a script may call another compiler than before.
    """
    host, environment = project.host, project.environment
    return hash_facts(
        {
            "environment": {name: environment[name] for name in _READ_BY_COMPILERS if environment.get(name)},
            "torch": torch.identity,
            "toolkit": toolkit,
            "compilers": [*sorted(f"{c.language}:{c.identity}" for c in host.compilers), cxx and cxx.version],
            "python": [host.python.interpreter_tag, host.python.abi_tag, host.platform_tag],
            "build-type": project.settings.build_type,
        }
    )


def extension_jobs(project: ExtensionProject, *, cuda: bool) -> Jobs:
    """The number of extension compilers that run at once."""
    return jobs_for(
        project.host.memory_bytes,
        project.host.cores,
        cuda=cuda,
        flash_attention=False,
        architectures=0,
        requested=project.settings.jobs,
    )


def _architectures_of_variables(project: ExtensionProject) -> Iterator[Problem]:
    """Report variables that make nvcc compile for further architectures."""
    for name in CUDA_FLAGS:
        try:
            words = command_words(project.environment.get(name, ""), project.host.system)
            own = own_architectures(words, f"variable {name}")
        except TorchwheelError as failure:
            yield from failure.problems
            continue
        if own.flags:
            yield Problem.of(
                "variables-add-architectures/extension",
                origin=f"variable {name}",
                name=name,
                flags=" ".join(own.flags),
            )


def _no_architectures(extension: Extension, inputs: ExtensionInputs) -> Problem:
    torch = inputs.torch
    return Problem.of(
        "no-target/extension-toolkit" if inputs.torch_architectures else "no-target/extension",
        origin=extension.origin,
        extension=extension.name,
        torch=torch.version,
        root=torch.root,
    )
