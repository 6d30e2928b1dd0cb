"""Read the inputs of the plan of a project's extensions, and make the plan, once in each process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from torchwheel.engine.venv import Installing, install_toolkit_packages
from torchwheel.extension.compile.torch_steps import set_variables
from torchwheel.extension.device_code import own_architectures, requested_architectures
from torchwheel.extension.extension_plan import (
    Extension,
    ExtensionInputs,
    ExtensionPlan,
    ExtensionProject,
)
from torchwheel.extension.options import cuda_left_out, target_without_code
from torchwheel.extension.planning import make_extension_plan
from torchwheel.hardware.gpu_catalogue import detect_gpus
from torchwheel.host.compiler_cache import find_compiler_cache, missing_cache
from torchwheel.host.compilers import ask_version, find_compilers
from torchwheel.host.machine import Compiler
from torchwheel.host.this import import_folders, this_host
from torchwheel.plan.defines import switched_off
from torchwheel.plan.request_checks import shared_cache
from torchwheel.preflight.this_machine import Question, ask_together
from torchwheel.reporting.errors import TorchwheelError, error
from torchwheel.settings import load_settings
from torchwheel.survey import BuildRequest, writers_of_builds
from torchwheel.system.paths import is_file
from torchwheel.toolkit.discover import find_candidates, nvcc_version
from torchwheel.toolkit.needs import ExtensionNeeds
from torchwheel.toolkit.pypi import compiler_packages
from torchwheel.toolkit.select import Selection, select_toolkit
from torchwheel.torch_install.cpp_extension import cpp_extension
from torchwheel.torch_install.installed_torch import front_end_findings, torch_architectures
from torchwheel.tree.source_tree import read_source

# torch.utils.cpp_extension 2.14.1 reads it.
ARCH_LIST = "TORCH_CUDA_ARCH_LIST"
_FAMILY = re.compile("[A-Z][a-z]+")
# PyTorch's BuildExtension reads none of these; many a setup.py has a DEBUG of its own.
_OF_PYTORCH = ("PYTORCH_BUILD_", "CMAKE_BUILD_TYPE", "DEBUG", "REL_WITH_DEB_INFO")
_NO_COMPILER_CACHE = "TORCH_NO_COMPILER_WRAPPER"


def read_extension_project(request: BuildRequest) -> ExtensionProject:
    """Read the settings of a project with extensions, and this machine."""
    host = this_host(request.environment)
    settings = load_settings(
        request.project,
        request.config_settings,
        _relevant_variables(request.environment, request.project),
        host,
        detect=lambda: detect_gpus(request.environment),
        working_folder=request.working_folder,
    )
    project = ExtensionProject(request, host, settings)
    findings = tuple(shared_cache(writers_of_builds(project.cache, settings)))
    # The variables in the settings may name other compilers.
    if project.environment != request.environment:
        host = replace(host, compilers=find_compilers(project.environment, host.system))
    return replace(project, host=host, findings=findings)


def _relevant_variables(environment: Mapping[str, str], project: Path) -> dict[str, str]:
    """Drop what is for PyTorch's own build and version or for CMake, and expand TORCH_CUDA_ARCH_LIST like PyTorch."""
    left_out = _OF_PYTORCH if is_file(project / "CMakeLists.txt") else (*_OF_PYTORCH, "CMAKE_ARGS")
    relevant = {name: text for name, text in environment.items() if not name.startswith(left_out)}
    asked = relevant.get(ARCH_LIST, "")
    if _FAMILY.search(asked):
        # What PyTorch does not know, or where there is none, is reported with the settings.
        with suppress(TorchwheelError, ValueError), set_variables({ARCH_LIST: asked}):
            flags = cpp_extension()._get_cuda_arch_flags()
            relevant[ARCH_LIST] = str(own_architectures(flags, ARCH_LIST).architectures)
    return relevant


def plan_extensions(
    project: ExtensionProject,
    extensions: Sequence[Extension],
    *,
    install: bool = False,
    below: str = "",
) -> ExtensionPlan:
    """Read the inputs of the plan of a project's extensions, and make it.

    Args:
        install: whether a toolkit that is still to be installed is; else it is assumed, because metadata and a
            printed plan need nothing but its release.
    """
    torch = project.torch
    cuda = project.builds_cuda and any(extension.uses_cuda for extension in extensions)
    selection = extension_toolkit(project, extensions, install=install) if cuda else None
    if selection and selection.to_install:
        selection = replace(selection, there=True)
    nvcc = selection.toolkit.nvcc if selection and selection.toolkit else None
    cuda_host = _nvcc_host_compiler(project) if any(one.cuda_sources for one in extensions) else None
    # A toolkit of packages does not exist before it is assembled.
    (cxx, cuda_host), unanswered = ask_compilers(
        [project.host.find_compiler("cxx"), cuda_host], nvcc if nvcc and is_file(Path(nvcc)) else None
    )
    cache = project_cache(project)
    unnamed = cuda and project.settings.arch is None
    inputs = ExtensionInputs(
        project=project,
        torch=torch,
        torch_architectures=torch_architectures(torch) if unnamed else None,
        selection=selection,
        cxx=cxx,
        extensions=tuple(extensions),
        unanswered=unanswered,
        checkout=read_source(project.folder)[0],
        module_suffixes=tuple(EXTENSION_SUFFIXES),
        below=below,
        cuda_host=cuda_host,
        compiler_cache=cache,
    )
    findings = [*front_end_findings(torch, project.environment)]
    # The plan names extensions with CUDA sources.
    if not any(one.cuda_sources for one in extensions):
        findings += map(error, cuda_left_out(project))
    # Tables name their CUDA sources.
    if any(one.by_setup_py for one in extensions):
        findings += map(error, target_without_code(project, extensions))
    chosen = project.settings.entries["compiler-cache"]
    findings += map(error, missing_cache(chosen.text, cache, chosen.origin))
    return make_extension_plan(replace(inputs, findings=tuple(findings)))


def ask_compilers(
    compilers: Sequence[Compiler | None], nvcc: str | None = None
) -> tuple[list[Compiler | None], dict[str, str]]:
    """Return compilers with their versions, and why any of them, or nvcc, did not respond."""
    questions: dict[str, Question] = {
        one.path: partial(ask_version, one) for one in compilers if one and one.found
    }
    if nvcc is not None:
        questions[nvcc] = partial(nvcc_version, nvcc)
    answers, unanswered = ask_together(questions)
    return [one and replace(one, version=answers.get(one.path, one.version)) for one in compilers], unanswered


def _nvcc_host_compiler(project: ExtensionProject) -> Compiler | None:
    """The compiler of ``CC`` where it alone is named, as for a machine whose usual one is too new for CUDA."""
    environment, c = project.environment, project.host.find_compiler("c")
    named = environment.get("CC") and not environment.get("CXX")
    return c if named and c is not None and c.found and c.kind != "msvc" else None


def extension_toolkit(
    project: ExtensionProject, extensions: Sequence[Extension] = (), *, install: bool = False
) -> Selection | None:
    """The toolkit that compiles for what is requested; None for a PyTorch without CUDA.

    Args:
        install: whether to install PyPI's packages into torchwheel's cache, if they are the choice.
    """
    if project.torch.cuda is None:
        return None
    selection = _select_toolkit(project, extensions, project.torch.cuda)
    if not install or not selection.to_install or selection.toolkit is None:
        return selection
    abi_tag, installing = project.host.python.abi_tag, Installing(project.folder, project.environment)
    install_toolkit_packages(
        project.cache, selection.toolkit.version, selection.to_install, abi_tag, installing
    )
    return _select_toolkit(project, extensions, project.torch.cuda)


def _select_toolkit(project: ExtensionProject, extensions: Sequence[Extension], cuda: str) -> Selection:
    settings, host, folders = project.settings, project.host, import_folders(None)
    lists = requested_architectures(extensions, settings)
    architectures = tuple(architecture for one in lists for architecture in one.architectures)
    needs = ExtensionNeeds(settings, host, architectures, cuda)
    return select_toolkit(
        needs,
        find_candidates(settings, host, project.environment, project.cache, folders, compiler_packages()),
    )


def project_cache(project: ExtensionProject) -> str | None:
    settings, environment = project.settings, project.environment
    if settings.compiler_cache == "auto" and environment.get(_NO_COMPILER_CACHE, "0") not in ("", "0"):
        return None
    found = find_compiler_cache(settings.compiler_cache, project.host, environment)
    return None if switched_off(settings) else found
