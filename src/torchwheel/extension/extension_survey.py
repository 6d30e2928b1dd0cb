"""Read the inputs of the plan of a project's extensions, and make the plan, once in each process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from torchwheel.engine.venv import Installing, install_toolkit_packages
from torchwheel.extension.compile.flags import own_architectures
from torchwheel.extension.compile.torch_steps import set_variables
from torchwheel.extension.extension_plan import (
    Extension,
    ExtensionInputs,
    ExtensionPlan,
    ExtensionProject,
    Language,
    language_of,
)
from torchwheel.extension.front_end_torch import front_end_findings
from torchwheel.extension.options import cuda_left_out, target_without_code
from torchwheel.extension.planning import make_extension_plan
from torchwheel.extension.sources import is_source_file
from torchwheel.extension.target_choice import requested_architectures
from torchwheel.extension.wheel_naming import this_python_build
from torchwheel.hardware.gpu_catalogue import detect_gpus
from torchwheel.host.compiler_cache import (
    caches_on_path,
    find_compiler_cache,
    kept_cache,
    missing_cache,
    recorded_choice,
)
from torchwheel.host.compilers import ask_version, find_compilers, program_words
from torchwheel.host.machine import Compiler, Host
from torchwheel.host.programs import find_program
from torchwheel.host.this import import_folders, this_host
from torchwheel.plan.defines import choose_cache
from torchwheel.plan.request_checks import shared_cache
from torchwheel.preflight.probing import Question, ask_together
from torchwheel.reporting.errors import Finding, Problem, TorchwheelError, error, note, warning
from torchwheel.settings import load_settings
from torchwheel.survey import BuildRequest, writers_of_builds
from torchwheel.system.paths import is_file
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.discover import find_candidates, nvcc_version, torch_headers
from torchwheel.toolkit.needs import ExtensionNeeds
from torchwheel.toolkit.pypi import compiler_packages
from torchwheel.toolkit.select import Selection, select_toolkit
from torchwheel.torch_install.cpp_extension import cpp_extension
from torchwheel.torch_install.installed_torch import torch_architectures
from torchwheel.tree.read_tree import read_source

# torch.utils.cpp_extension 2.14.1 reads it.
ARCH_LIST = "TORCH_CUDA_ARCH_LIST"
_FAMILY = re.compile("[A-Z][a-z]+")
# PyTorch's BuildExtension reads none of these; many a setup.py has a DEBUG of its own.
_OF_PYTORCH = ("PYTORCH_BUILD_", "CMAKE_BUILD_TYPE", "DEBUG", "REL_WITH_DEB_INFO")
_NO_COMPILER_CACHE = "TORCH_NO_COMPILER_WRAPPER"


def read_extension_project(request: BuildRequest) -> ExtensionProject:
    """Read the settings of a project with extensions, and this machine.

    Variables for PyTorch's own version are not for the project's.
    """
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
    project = replace(
        project, findings=tuple(shared_cache(writers_of_builds(project.cache, project.settings)))
    )
    # The variables in the settings may name other compilers.
    if project.environment != request.environment:
        return replace(
            project, host=replace(host, compilers=find_compilers(project.environment, host.system))
        )
    return project


def _relevant_variables(environment: Mapping[str, str], project: Path) -> dict[str, str]:
    """Drop what is for PyTorch's own build or for CMake, and expand TORCH_CUDA_ARCH_LIST's families like PyTorch."""
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
    begun_in: Path | None = None,
) -> ExtensionPlan:
    """Read the inputs of the plan of a project's extensions, and make it.

    Args:
        install: whether a toolkit that is still to be installed is; else it is assumed, because metadata and a
            printed plan need nothing but its release.
        below: see :class:`ExtensionInputs`.
        begun_in: the folder that remembers which compiler cache it was begun with; None for the plan's own.
    """
    torch = project.torch
    cuda = torch.cuda is not None and any(extension.uses_cuda for extension in extensions)
    selection = extension_toolkit(project, extensions, install=install) if cuda else None
    if selection and selection.to_install:
        selection = replace(selection, there=True)
    languages = {language_of(source) for extension in extensions for source in extension.sources}
    nvcc = selection.toolkit.nvcc if selection and selection.toolkit else None
    cuda_host = _nvcc_host_compiler(project) if Language.CUDA in languages else None
    # A toolkit of packages does not exist before it is assembled.
    cxx, unanswered = ask_compilers(
        project.host,
        c=Language.C in languages or cuda_host is not None,
        nvcc=nvcc if nvcc and is_file(Path(nvcc)) else None,
    )
    if cuda_host is not None and cuda_host.path not in unanswered:
        cuda_host = replace(cuda_host, version=ask_version(cuda_host))
    # A command of a setup.py may make its sources.
    files = {file for extension in extensions if not extension.by_setup_py for file in extension.sources}
    missing = frozenset(file for file in files if not is_source_file(file, project.folder))
    unnamed = cuda and project.settings.arch is None
    inputs = ExtensionInputs(
        project=project,
        torch=torch,
        torch_architectures=torch_architectures(torch) if unnamed else None,
        python=this_python_build(),
        selection=selection,
        cxx=cxx,
        extensions=tuple(extensions),
        missing_files=missing,
        unanswered=unanswered,
        checkout=read_source(project.folder)[0],
        below=below,
        cuda_host=cuda_host,
    )
    plan = make_extension_plan(replace(inputs, findings=tuple(_findings(inputs))))
    return _with_compiler_cache(plan, begun_in or plan.folder)


def _with_compiler_cache(plan: ExtensionPlan, folder: Path) -> ExtensionPlan:
    """Choose the compiler cache of a plan, whose folder remembers the one that it was begun with."""
    project, cxx = plan.project, plan.inputs.cxx
    found, cache = project_cache(project), project_cache(project, folder)
    chosen = project.settings.entries["compiler-cache"]
    findings = [*map(error, missing_cache(chosen.text, found, chosen.origin)), *plan.findings]
    # The build reports a missing one.
    if cache != found and (cache is None or cache in caches_on_path(project.environment)):
        findings.append(note(kept_cache(cache, found)))
    launcher = cxx.launcher if cxx and cxx.launcher else (cache,) if cache else ()
    inputs = replace(plan.inputs, launcher=launcher, compiler_cache=cache)
    return replace(plan, inputs=inputs, findings=tuple(findings))


def _findings(inputs: ExtensionInputs) -> Iterator[Finding]:
    project, extensions = inputs.project, inputs.extensions
    yield from front_end_findings(inputs.torch, project.environment)
    # Otherwise there is no plan.
    if "torch-without-cuda" in project.settings.skip_check:
        yield from map(error, cuda_left_out(project))
    # Tables name their CUDA sources.
    if any(one.by_setup_py for one in extensions):
        yield from map(error, target_without_code(project, extensions))
    if inputs.toolkit is not None:
        yield from map(warning, _unread_variables(inputs, inputs.toolkit))


def _unread_variables(inputs: ExtensionInputs, toolkit: Toolkit) -> Iterator[Problem]:
    """Report CMake's variables for nvcc and its host compiler where others compile, as with PyTorch's own command."""
    host, environment = inputs.cuda_host or inputs.cxx, inputs.project.environment
    search = environment.get("PATH")
    for name, used, instead in (
        ("CUDACXX", toolkit.nvcc, "-C cuda-path="),
        ("CUDAHOSTCXX", host.path if host else None, "CC"),
    ):
        words = program_words(environment.get(name, ""), search, inputs.project.host.system)
        named = find_program(words[0], search) if words else None
        if used and words and os.path.realpath(named or words[0]) != os.path.realpath(used):
            yield Problem.of(
                "cuda-variable-unread",
                origin=f"variable {name}",
                name=name,
                value=words[0],
                used=used,
                instead=instead,
            )


def ask_compilers(host: Host, *, c: bool, nvcc: str | None = None) -> tuple[Compiler | None, dict[str, str]]:
    """Return the C++ compiler with its version, and why compilers did not respond, also the C compiler and nvcc."""
    asked = [one for one in host.compilers if one.found and (c or one.language == "cxx")]
    questions: dict[str, Question] = {one.path: partial(ask_version, one) for one in asked}
    if nvcc is not None:
        questions[nvcc] = partial(nvcc_version, nvcc)
    answers, unanswered = ask_together(questions)
    cxx = host.find_compiler("cxx")
    return cxx and replace(cxx, version=answers.get(cxx.path, cxx.version)), unanswered


def _nvcc_host_compiler(project: ExtensionProject) -> Compiler | None:
    """Return the compiler of ``CC`` where it alone is named; torch.utils.cpp_extension gives it to nvcc.

    So a machine whose usual compiler is too new for CUDA is used.
    """
    environment, c = project.environment, project.host.find_compiler("c")
    named = environment.get("CC") and not environment.get("CXX")
    return c if named and c is not None and c.found and c.kind != "msvc" else None


def extension_toolkit(
    project: ExtensionProject, extensions: Sequence[Extension] = (), *, install: bool = False
) -> Selection | None:
    """The toolkit that compiles for what is requested; PyTorch's own architectures follow from it, not it from them.

    Args:
        install: whether to install PyPI's packages into torchwheel's cache, if they are the choice.

    Returns:
        The choice; None for a PyTorch without CUDA.
    """
    if project.torch.cuda is None:
        return None
    selection = _select_toolkit(project, extensions, project.torch.cuda)
    if not install or not selection.to_install or selection.toolkit is None:
        return selection
    install_toolkit_packages(
        project.cache,
        selection.toolkit.version,
        selection.to_install,
        project.host.python.abi_tag,
        Installing(project.folder, project.environment),
    )
    return _select_toolkit(project, extensions, project.torch.cuda)


def _select_toolkit(project: ExtensionProject, extensions: Sequence[Extension], cuda: str) -> Selection:
    lists = requested_architectures(extensions, project.settings)
    architectures = tuple(architecture for one in lists for architecture in one.architectures)
    candidates = find_candidates(
        project.settings,
        project.host,
        project.environment,
        project.cache,
        import_folders(None),
        compiler_packages(),
        torch_headers(),
    )
    needs = ExtensionNeeds(project.settings, project.host, architectures, cuda)
    return select_toolkit(needs, candidates)


def project_cache(project: ExtensionProject, folder: Path | None = None) -> str | None:
    """Choose the compiler cache of a project's builds.

    Args:
        folder: a build folder, which keeps its first choice, because another one changes every command.
    """
    settings, environment = project.settings, project.environment
    if settings.compiler_cache == "auto" and environment.get(_NO_COMPILER_CACHE, "0") not in ("", "0"):
        return None
    found = find_compiler_cache(settings.compiler_cache, project.host, environment)
    begun = recorded_choice(folder) if folder else None
    return choose_cache(settings, project.host, found, caches_on_path(environment), begun).cache
