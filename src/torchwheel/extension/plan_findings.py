"""Findings about the build of extensions before it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchwheel.extension.extension_plan import ExtensionInputs, ExtensionProject
from torchwheel.host.machine import Compiler, is_free_threaded
from torchwheel.plan.request_checks import secrets_in_flags
from torchwheel.preflight.checks import host_compiler
from torchwheel.preflight.checks.build_environment import skipped_checks
from torchwheel.preflight.checks.cuda import nvcc_answering
from torchwheel.preflight.registry import Answer, Violation, read_rules
from torchwheel.proof.stable_abi import stable_abi_problems
from torchwheel.reporting.errors import Finding, Problem, error, note, warning
from torchwheel.torch_install.installed_torch import torch_findings

_MISREAD = r'[\x00-\x1f\x7f";|`\\]|\$(?:\w*\{|[<(])'


def plan_findings(inputs: ExtensionInputs) -> Iterator[Finding]:
    """Return all findings except those about the choice of architectures."""
    project = inputs.project
    yield from project.findings
    yield from inputs.findings
    yield from torch_findings(inputs.torch)
    yield from map(error, _torch_problems(inputs))
    for extension in inputs.extensions:
        if (abi := extension.stable_abi) is not None:
            yield from map(error, stable_abi_problems(abi, inputs.torch.version, extension.origin))
        abi_tag, name, origin = project.host.python.abi_tag, extension.name, extension.origin
        if extension.wants_limited_api and is_free_threaded(abi_tag):
            yield note(Problem.of("no-limited-api-here", origin=origin, extension=name, abi=abi_tag))
    if inputs.selection is not None:
        yield from inputs.selection.findings
    yield from _rule_findings("unknown-skip-check", skipped_checks(project.settings), project)
    yield from compiler_findings(project, inputs.cxx, inputs.unanswered)
    if inputs.toolkit is not None:
        answer = nvcc_answering(inputs.toolkit, inputs.unanswered)
        yield from _rule_findings("nvcc-does-not-work", answer, project)
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


def folder_findings(project: ExtensionProject) -> Iterator[Finding]:
    """Report signs in folders for which CMake would build in another one, or scikit-build-core in an unproved one."""
    builds = project.builds_folder.as_posix()
    elsewhere = "name another one with TORCHWHEEL_CACHE_DIR= or -C build-dir="
    for folder, signs, remedy in (
        (project.folder.as_posix(), _MISREAD, "move the project"),
        (builds, rf"{_MISREAD}|[{{}}]", elsewhere),
    ):
        if sign := re.search(signs, folder):
            yield error(Problem.of("path-breaks-tools/extension", folder=folder, sign=sign[0], advice=remedy))


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
    if isinstance(answer, Violation):
        origin = answer.origin or ("variable CXX" if project.settings.env.get("CXX") else "")
        yield read_rules()[rule_id].finding(replace(answer, origin=origin))
