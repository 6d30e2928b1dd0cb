"""Make the plan of a project's extensions, with its findings: a pure function of the settings and the survey."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from torchwheel.extension.compile.units import SOURCE, TOOLKIT, TORCH, layout_of
from torchwheel.extension.device_code import MISSED, choose_targets, own_architectures
from torchwheel.extension.extension_plan import (
    Extension,
    ExtensionInputs,
    ExtensionPlan,
    ExtensionProject,
    PlannedExtension,
)
from torchwheel.extension.sources import separate_architectures
from torchwheel.extension.wheel_record import module_suffix, record_of
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compilers import CUDA_FLAGS, NVCC_FLAGS, SEARCH_PATHS, command_words
from torchwheel.host.jobs import Jobs, jobs_for
from torchwheel.host.machine import Compiler, is_free_threaded
from torchwheel.plan.build_plan import hash_facts
from torchwheel.plan.request_checks import secrets_in_flags
from torchwheel.preflight.checks import host_compiler
from torchwheel.preflight.checks.build_environment import skipped_checks
from torchwheel.preflight.checks.cuda import nvcc_answering
from torchwheel.preflight.registry import Answer, Violation, read_rules
from torchwheel.proof.stable_abi import stable_abi_problems
from torchwheel.reporting.errors import (
    Finding,
    Problem,
    collect_problems,
    error,
    note,
    stopping_errors,
    warning,
)
from torchwheel.reporting.terminal import join_items
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.torch_install.installed_torch import InstalledTorch, torch_findings

# The variables that compilers and linkers read. Sources: the manuals of GCC (Environment
# Variables Affecting GCC), ld (-rpath), nvcc (NVCC Environment Variables) and MSVC (CL environment variables).
_READ_BY_COMPILERS = (
    *SEARCH_PATHS, "LD_RUN_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", *NVCC_FLAGS, "NVCC_CCBIN",
    "CCC_OVERRIDE_OPTIONS", "MACOSX_DEPLOYMENT_TARGET", "SDKROOT", "CL", "_CL_", "LINK", "_LINK_", "INCLUDE", "LIB",
    "LIBPATH",
)  # fmt: skip
_MISREAD = r'[\x00-\x1f\x7f";|`\\]|\$(?:\w*\{|[<(])'


def make_extension_plan(inputs: ExtensionInputs) -> ExtensionPlan:
    """Make the plan from its inputs alone; with errors that are not skipped it has no extensions."""
    project, toolkit = inputs.project, inputs.toolkit
    problems: list[Problem] = []
    choices: list[_Choice] = []
    for extension in inputs.extensions:
        with collect_problems(problems):
            choices.append(_choose_architectures(extension, inputs))
    if any(extension.cuda_sources for extension in inputs.extensions):
        with collect_problems(problems):
            problems += _architectures_of_variables(project)
    findings = [*_plan_findings(inputs), *map(error, problems), *_choice_findings(choices, inputs)]
    failed = bool(problems or stopping_errors(findings, project.settings.skip_check))
    failed |= any(one.extension.cuda_sources and not (toolkit and one.architectures) for one, _ in choices)
    tools = tools_identity(project, inputs.torch, toolkit.identity if toolkit else "", inputs.cxx)
    identity = hash_facts([tools, *(str(one.architectures) for one, _ in choices)])
    # Other tools or another PyTorch behind the same links need another folder, because the commands are equal. GPUs do
    # not: in one folder a compiler cache hits for all of them.
    below = f"{inputs.below}-{tools}" if inputs.below else ""
    plan = ExtensionPlan(
        inputs=inputs,
        architectures=ArchitectureList.union(one.architectures for one, _ in choices),
        extensions=() if failed or inputs.cxx is None else tuple(one for one, _ in choices),
        jobs=extension_jobs(project, cuda=toolkit is not None),
        folder=build_folder(project, identity),
        below=below,
        layout=layout_of(project.host.system, str(project.folder), _linked_folders(inputs, below)),
        findings=(),
    )
    findings += map(error, _sdist_problems(inputs, record_of(plan).local_version))
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
        key = "no-target/extension-toolkit" if inputs.torch_architectures else "no-target/extension"
        values = {"origin": unnamed[0].origin, "extension": join_items([one.name for one in unnamed])}
        yield error(Problem.of(key, torch=torch.version, root=torch.root, **values))


def _choose_architectures(extension: Extension, inputs: ExtensionInputs) -> _Choice:
    """Choose a source's own architectures, else those of settings and the project's flags, else PyTorch's own.

    Raises:
        TorchwheelError: the flags cannot be read.
    """
    # The stable ABI implies Python's limited API, if this Python supports it.
    limited = extension.wants_limited_api and not is_free_threaded(inputs.project.host.python.abi_tag)
    extension = replace(extension, limited_api=limited)
    suffix = module_suffix(inputs.module_suffixes, limited=limited)
    planned = PlannedExtension(extension, extension.name.replace(".", "/") + suffix, None)
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
    # Its objects are below the folder with the identity, but the link is not: see _FOLDER in cmake/configure.py.
    source = str(PurePosixPath(inputs.below).parent / SOURCE)
    links = {source: str(inputs.project.folder), str(PurePosixPath(below, TORCH)): str(inputs.torch.root)}
    if inputs.toolkit is not None:
        links[str(PurePosixPath(below, TOOLKIT))] = inputs.toolkit.root
    return links


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
    host = project.host
    return jobs_for(host.memory_bytes, host.cores, cuda=cuda, requested=project.settings.jobs)


def _architectures_of_variables(project: ExtensionProject) -> Iterator[Problem]:
    """Report variables that make nvcc compile for further architectures.

    Raises:
        TorchwheelError: the flags in one cannot be read.
    """
    for name in CUDA_FLAGS:
        words = command_words(project.environment.get(name, ""), project.host.system)
        origin = f"variable {name}"
        if flags := " ".join(own_architectures(words, origin).flags):
            yield Problem.of("variables-add-architectures/extension", origin=origin, name=name, flags=flags)


def _plan_findings(inputs: ExtensionInputs) -> Iterator[Finding]:
    """Yield all findings except those about the choice of architectures."""
    project, torch = inputs.project, inputs.torch
    yield from project.findings
    yield from inputs.findings
    yield from torch_findings(torch)
    yield from map(error, _torch_problems(inputs))
    for one in inputs.extensions:
        if one.stable_abi is not None:
            yield from map(error, stable_abi_problems(one.stable_abi, torch.version, one.origin))
        if one.wants_limited_api and is_free_threaded(abi := project.host.python.abi_tag):
            yield note(Problem.of("no-limited-api-here", origin=one.origin, extension=one.name, abi=abi))
    if inputs.selection is not None:
        yield from inputs.selection.findings
    yield from _rule_findings("unknown-skip-check", skipped_checks(project.settings), project)
    yield from compiler_findings(project, inputs.cxx, inputs.unanswered)
    if inputs.toolkit is not None:
        answer = nvcc_answering(inputs.toolkit, inputs.unanswered)
        yield from _rule_findings("nvcc-does-not-work", answer, project)
    yield from map(warning, secrets_in_flags(project.settings))


def _sdist_problems(inputs: ExtensionInputs, label: str) -> Iterator[Problem]:
    """Report parts of the wheel's label that the label of its sdist lacks.

    For a CMake project this may be the label of one of several extensions, some of which have no device code.
    """
    sdist = inputs.project.pyproject.sdist
    if sdist is None or "+" not in sdist.version:
        return
    local = sdist.version.partition("+")[2]
    besides = set(label.split(".")) - set(local.split("."))
    if not besides - (set() if inputs.project.settings.is_cpu else {"cpu"}):
        return
    # The sdist's name must not be wrong about PyTorch. Labels are split at dots: torch2.15 against torch2.14 leaves 15.
    of_torch = any(part.startswith(("torch", "dev")) or part.isdigit() for part in besides)
    yield Problem.of(
        "version-is-not-the-sdists/torch" if of_torch else "version-is-not-the-sdists/extension",
        sdist=sdist.version,
        label=label or "none",
        kept=sdist.label or local,
    )


def _torch_problems(inputs: ExtensionInputs) -> Iterator[Problem]:
    torch, settings = inputs.torch, inputs.project.settings
    # A CUDAExtension without CUDA sources of its own may be built for the CPU, where that is requested.
    named = [one for one in inputs.extensions if one.cuda_sources or (one.cuda and not settings.is_cpu)]
    if not named:
        return
    values = {"origin": named[0].origin, "extensions": ", ".join(extension.name for extension in named)}
    if torch.hip is not None:
        yield Problem.of("torch-for-rocm", torch=torch.version, rocm=torch.hip, **values)
    elif torch.cuda is None:
        yield Problem.of("torch-without-cuda", torch=torch.version, root=torch.root, **values)
    elif settings.is_cpu:
        target = settings.entries["target"].origin
        yield Problem.of("cpu-target-with-cuda-sources", origin_of_target=target, **values)


def folder_findings(project: ExtensionProject) -> Iterator[Finding]:
    """Report signs in folders for which CMake would build in another one, or scikit-build-core in an unproved one."""
    elsewhere = "name another one with TORCHWHEEL_CACHE_DIR= or -C build-dir="
    for folder, signs, remedy in (
        (project.folder.as_posix(), _MISREAD, "move the project"),
        (project.builds_folder.as_posix(), rf"{_MISREAD}|[{{}}]", elsewhere),
    ):
        if sign := re.search(signs, folder):
            yield error(Problem.of("path-breaks-tools/extension", folder=folder, sign=sign[0], advice=remedy))


def compiler_findings(
    project: ExtensionProject, cxx: Compiler | None, unanswered: Mapping[str, str]
) -> Iterator[Finding]:
    """Report missing or broken compilers, by the answers of ``extension_survey.ask_compilers``."""
    presence = host_compiler.check_presence(cxx, project.host.system)
    yield from _rule_findings("no-host-compiler", presence, project)
    responses = host_compiler.check_responses(project.host.compilers, unanswered)
    yield from _rule_findings("host-compiler-does-not-work", responses, project)


def _rule_findings(rule_id: str, answer: Answer, project: ExtensionProject) -> Iterator[Finding]:
    if isinstance(answer, Violation):
        origin = answer.origin or ("variable CXX" if project.settings.env.get("CXX") else "")
        yield read_rules()[rule_id].finding(replace(answer, origin=origin))
