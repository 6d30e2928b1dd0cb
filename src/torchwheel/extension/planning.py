"""Make the plan of a project's extensions: a pure function of the settings and the survey."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from torchwheel.extension.compile.flags import own_architectures
from torchwheel.extension.compile.units import SOURCE, TOOLKIT, TORCH, layout_of
from torchwheel.extension.extension_plan import (
    Extension,
    ExtensionInputs,
    ExtensionPlan,
    ExtensionProject,
    PlannedExtension,
)
from torchwheel.extension.plan_findings import plan_findings, sdist_problems
from torchwheel.extension.sources import separate_architectures
from torchwheel.extension.target_choice import MISSED, choose_targets
from torchwheel.extension.wheel_naming import module_suffix
from torchwheel.extension.wheel_record import record_of
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compilers import CUDA_FLAGS, NVCC_FLAGS, SEARCH_PATHS, command_words
from torchwheel.host.jobs import Jobs, jobs_for
from torchwheel.host.machine import Compiler, is_free_threaded
from torchwheel.plan.build_plan import hash_facts
from torchwheel.reporting.errors import (
    Finding,
    Problem,
    collect_problems,
    error,
    stopping_errors,
    warning,
)
from torchwheel.reporting.terminal import join_items
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.torch_install.installed_torch import InstalledTorch

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
    problems: list[Problem] = []
    choices: list[_Choice] = []
    for extension in inputs.extensions:
        with collect_problems(problems):
            choices.append(_choose_architectures(extension, inputs))
    if any(extension.cuda_sources for extension in inputs.extensions):
        with collect_problems(problems):
            problems += _architectures_of_variables(project)
    findings = [*plan_findings(inputs), *map(error, problems), *_choice_findings(choices, inputs)]
    failed = bool(problems or stopping_errors(findings, project.settings.skip_check))
    failed |= any(one.extension.cuda_sources and not (toolkit and one.architectures) for one, _ in choices)
    tools = tools_identity(project, inputs.torch, toolkit.identity if toolkit else "", inputs.cxx)
    identity = hash_facts([tools, *(str(one.architectures) for one, _ in choices)])
    # Other tools or another PyTorch behind the same links need another folder, because the commands are equal. GPUs do
    # not: in one folder a compiler cache hits for all of them.
    below = f"{inputs.below}-{tools}" if inputs.below else ""
    planned = () if failed or inputs.cxx is None else (one for one, _ in choices)
    architectures = ArchitectureList.union(one.architectures for one, _ in choices)
    plan = ExtensionPlan(
        inputs=inputs,
        architectures=architectures,
        extensions=tuple(planned),
        jobs=extension_jobs(project, cuda=toolkit is not None),
        folder=build_folder(project, identity),
        below=below,
        layout=layout_of(project.host.system, str(project.folder), _linked_folders(inputs, below)),
        findings=(),
    )
    findings += map(error, sdist_problems(inputs, record_of(plan).local_version))
    return replace(plan, findings=tuple(sorted(findings, key=lambda finding: finding.severity.rank)))


_Choice = tuple[PlannedExtension, Finding | None]


def _choice_findings(choices: Sequence[_Choice], inputs: ExtensionInputs) -> Iterator[Finding]:
    compiled = [one for one, _ in choices if one.extension.cuda_sources]
    found = [finding for _, finding in choices if finding]
    # Kernels that do not run on the target are an error only where no other extension's do.
    alone = sum(one.id == MISSED for one in found) == len(compiled)
    for one in found:
        yield one if alone or one.id != MISSED else warning(one.problem)
    torch, unnamed = inputs.torch, [one.extension for one in compiled if one.architectures is None]
    # A PyTorch without CUDA has none for any target, and is reported itself, as the CPU is.
    if unnamed and torch.cuda is not None and not inputs.project.settings.is_cpu:
        yield error(
            Problem.of(
                "no-target/extension-toolkit" if inputs.torch_architectures else "no-target/extension",
                origin=unnamed[0].origin,
                extension=join_items([one.name for one in unnamed]),
                torch=torch.version,
                root=torch.root,
            )
        )


def _choose_architectures(extension: Extension, inputs: ExtensionInputs) -> _Choice:
    """Choose a source's own architectures, else those of settings and the project's flags, else PyTorch's own.

    Raises:
        TorchwheelError: the flags cannot be read.
    """
    # The stable ABI implies Python's limited API, if this Python supports it.
    limited = extension.wants_limited_api and not is_free_threaded(inputs.project.host.python.abi_tag)
    extension = replace(extension, limited_api=limited)
    planned = PlannedExtension(
        extension,
        extension.name.replace(".", "/") + module_suffix(inputs.module_suffixes, limited=limited),
        None,
    )
    if not extension.cuda_sources:
        return planned, None
    own = choose_targets(extension, inputs.project.settings)
    chosen = own.architectures or _buildable_architectures(inputs)
    if chosen is None:
        return planned, own.finding
    architectures = ArchitectureList.union(
        separate_architectures(extension, one) or chosen for one in extension.cuda_sources
    )
    return replace(planned, architectures=architectures, options=own.options, usual=chosen), own.finding


def _buildable_architectures(inputs: ExtensionInputs) -> ArchitectureList | None:
    """PyTorch's own architectures that the toolkit can compile."""
    own, toolkit = inputs.torch_architectures, inputs.toolkit
    if own is None or toolkit is None:
        return own
    release = read_toolkits().release(toolkit.version)
    if release is None:
        return own
    kept = [target for target in own.targets if target.architecture in release.architectures]
    return ArchitectureList.of(kept) if kept else None


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
    """Report variables that make nvcc compile for further architectures.

    Raises:
        TorchwheelError: the flags in one cannot be read.
    """
    for name in CUDA_FLAGS:
        words = command_words(project.environment.get(name, ""), project.host.system)
        own = own_architectures(words, f"variable {name}")
        if own.flags:
            yield Problem.of(
                "variables-add-architectures/extension",
                origin=f"variable {name}",
                name=name,
                flags=" ".join(own.flags),
            )
