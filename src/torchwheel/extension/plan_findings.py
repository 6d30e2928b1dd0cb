"""Findings about the build of extensions before it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchwheel.extension.extension_plan import ExtensionInputs, ExtensionProject, Language
from torchwheel.extension.sources import find_unquotable, source_problems
from torchwheel.extension.wheel_naming import has_limited_api
from torchwheel.host.machine import Compiler
from torchwheel.plan.request_checks import secrets_in_flags
from torchwheel.preflight.checks import host_compiler
from torchwheel.preflight.checks import toolkit as toolkit_rules
from torchwheel.preflight.checks.build_environment import skipped_checks
from torchwheel.preflight.registry import Answer, Violation, read_rules
from torchwheel.preflight.report import finding_of
from torchwheel.proof.stable_abi import stable_abi_problems
from torchwheel.pytorch.releases import CompilerNeed, cxx_supports
from torchwheel.reporting.errors import Finding, Problem, error, note, warning
from torchwheel.toolkit.host_compiler import can_be_silenced
from torchwheel.toolkit.read_toolkit import release_of
from torchwheel.torch_install.installed_torch import torch_findings

_HOST_OPTIONS = ("-ccbin", "--compiler-bindir")


def plan_findings(inputs: ExtensionInputs) -> Iterator[Finding]:
    """Return all findings except those about the choice of architectures."""
    project = inputs.project
    windows = project.host.system == "Windows"
    yield from project.findings
    yield from inputs.findings
    for extension in inputs.extensions:
        if not extension.by_setup_py:
            found = source_problems(extension, project.folder, inputs.missing_files, windows=windows)
            yield from map(error, found)
    yield from torch_findings(inputs.torch)
    yield from map(error, _torch_problems(inputs))
    for extension in inputs.extensions:
        if (abi := extension.stable_abi) is not None:
            yield from map(error, stable_abi_problems(abi, inputs.torch.version, extension.origin))
    abi_tag = project.host.python.abi_tag
    if not has_limited_api(abi_tag):
        yield from map(note, _no_limited_api(inputs, abi_tag))
    if inputs.selection is not None:
        yield from inputs.selection.findings
    yield from _rule_findings("unknown-skip-check", skipped_checks(project.settings), project)
    yield from _compiler_checks(inputs)
    yield from map(warning, secrets_in_flags(project.settings))


def sdist_problems(inputs: ExtensionInputs, label: str) -> Iterator[Problem]:
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
    origin = named[0].origin
    names = ", ".join(extension.name for extension in named)
    if torch.hip is not None:
        yield Problem.of(
            "torch-for-rocm", origin=origin, extensions=names, torch=torch.version, rocm=torch.hip
        )
    elif torch.cuda is None:
        yield Problem.of(
            "torch-without-cuda", origin=origin, extensions=names, torch=torch.version, root=torch.root
        )
    elif settings.is_cpu:
        target = settings.entries["target"]
        yield Problem.of(
            "cpu-target-with-cuda-sources", origin=origin, extensions=names, origin_of_target=target.origin
        )


def _no_limited_api(inputs: ExtensionInputs, abi_tag: str) -> Iterator[Problem]:
    for extension in (one for one in inputs.extensions if one.wants_limited_api):
        yield Problem.of(
            "no-limited-api-here", origin=extension.origin, extension=extension.name, abi=abi_tag
        )


def folder_findings(project: ExtensionProject) -> Iterator[Finding]:
    """Report settings with which CMake would build in another folder than the requested one, or fail."""
    builds, elsewhere = (
        project.builds_folder.as_posix(),
        "name another one with TORCHWHEEL_CACHE_DIR= or -C build-dir=",
    )
    brace = re.search("[{}]", builds)
    for folder, sign, remedy in (
        (project.folder.as_posix(), "", "move the project"),
        (builds, brace[0] if brace else "", elsewhere),
    ):
        if sign := find_unquotable(folder) or sign:
            yield error(Problem.of("path-breaks-tools/extension", folder=folder, sign=sign, advice=remedy))


def compiler_findings(
    project: ExtensionProject, cxx: Compiler | None, unanswered: Mapping[str, str]
) -> Iterator[Finding]:
    """Report missing or broken compilers, by the answers of ``extension_survey.ask_compilers``."""
    yield from _rule_findings(
        "no-host-compiler", host_compiler.check_presence(cxx, project.host.system), project
    )
    answer = host_compiler.check_responses(project.host.compilers, unanswered)
    yield from _rule_findings("host-compiler-does-not-work", answer, project)


def _rule_findings(rule_id: str, answer: Answer, project: ExtensionProject) -> Iterator[Finding]:
    """Yield the finding of a preflight rule for its answer."""
    if isinstance(answer, Violation):
        origin = answer.origin or ("variable CXX" if project.settings.env.get("CXX") else "")
        yield finding_of(read_rules()[rule_id], replace(answer, origin=origin))


def _compiler_checks(inputs: ExtensionInputs) -> Iterator[Finding]:
    yield from compiler_findings(inputs.project, inputs.cxx, inputs.unanswered)
    for rule_id, answer in _compiler_answers(inputs):
        yield from _rule_findings(rule_id, answer, inputs.project)


def _compiler_answers(inputs: ExtensionInputs) -> Iterator[tuple[str, Answer]]:
    cxx, torch, toolkit = inputs.cxx, inputs.torch, inputs.toolkit
    if toolkit is not None:
        yield "nvcc-does-not-work", toolkit_rules.nvcc_answering(toolkit, inputs.unanswered)
    if cxx is None or not cxx.found or not cxx.version:
        return
    first = cxx_supports().get((torch.cxx_standard, cxx.kind))
    if first is not None:
        need = CompilerNeed(first, torch.cxx_standard)
        yield "host-compiler-too-old", host_compiler.check_age(cxx, need, torch.version, "CXX")
    release = release_of(toolkit) if toolkit else None
    if release is None:
        return
    flags = [flag for extension in inputs.extensions for flag in extension.flags.get(Language.CUDA, ())]
    if any(flag.startswith(_HOST_OPTIONS) for flag in flags):
        # The project names nvcc's host compiler itself.
        return
    host, variable = (inputs.cuda_host, "CC") if inputs.cuda_host else (cxx, "CXX")
    silenced = any(host_compiler.SILENCER in flag for flag in flags) and can_be_silenced(host)
    taken = host_compiler.nvcc_takes(host, release, None, variable)
    yield f"host-compiler-{'check-silenced' if silenced else 'refused-by-cuda'}", taken
    if not any(host_compiler.LIBRARY_SILENCER in flag for flag in flags):
        yield "msvc-library-needs-newer-cuda", host_compiler.library_takes(cxx, release.version)
