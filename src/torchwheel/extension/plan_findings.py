"""What is worth saying about the build of extensions before it starts."""

from __future__ import annotations

from collections.abc import Iterator

from torchwheel.errors import Problem
from torchwheel.extension.inputs import Inputs
from torchwheel.extension.sources import has_cuda_sources, source_problems
from torchwheel.extension.stable.stable_abi import stable_abi_problems
from torchwheel.extension.torch_install.installed_torch import torch_findings
from torchwheel.findings import Finding, error
from torchwheel.host.model import Compiler
from torchwheel.pytorch.releases import cxx_supports
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.model import Toolkit
from torchwheel.versions import at_least

TOOLKIT_NOT_INSTALLED = "toolkit-not-installed"
"""The error that installing the plan's ``toolkit_requirements`` removes."""


def plan_findings(inputs: Inputs, *, cuda: bool) -> Iterator[Finding]:
    """Everything but what architectures are chosen.

    Args:
        inputs: what the plan is made from.
        cuda: whether any extension uses CUDA.
    """
    for problem in _sources(inputs):
        yield error(problem)
    yield from torch_findings(inputs.torch)
    for problem in _torch(inputs, cuda=cuda):
        yield error(problem)
    for problem in _stable_abi(inputs):
        yield error(problem)
    if cuda:
        yield from inputs.toolkit_findings
        if inputs.toolkit_requirements:
            yield error(_toolkit_not_installed(inputs))
    for problem in _compilers(inputs, inputs.toolkit if cuda else None):
        yield error(problem)


def _sources(inputs: Inputs) -> Iterator[Problem]:
    for extension in inputs.extensions:
        yield from source_problems(extension, inputs.project, inputs.missing_sources)


def _torch(inputs: Inputs, *, cuda: bool) -> Iterator[Problem]:
    torch = inputs.torch
    named = [extension for extension in inputs.extensions if has_cuda_sources(extension)]
    if not cuda or not named:
        return
    origin = named[0].origin
    names = ", ".join(extension.name for extension in named)
    if torch.hip is not None:
        yield Problem(
            id="torch-for-rocm",
            what=f"{names} has CUDA sources, but the installed PyTorch {torch.version} is built for ROCm {torch.hip}",
            why="torchwheel compiles extensions for NVIDIA GPUs and for the CPU",
            remedy="install a CUDA build of PyTorch in the build environment, or build with torch.utils.cpp_extension",
            origin=origin,
        )
    elif torch.cuda is None:
        yield Problem(
            id="torch-without-cuda",
            what=f"{names} has CUDA sources, but the installed PyTorch {torch.version} is built without CUDA",
            why=f"its headers and libraries in {torch.root} lack what CUDA code needs",
            remedy="install a CUDA build of PyTorch in the build environment, or leave the CUDA sources out: "
            "cuda-sources in [[tool.torchwheel.extension]] are compiled only where PyTorch has CUDA",
            origin=origin,
        )
    elif inputs.settings.is_cpu:
        target = inputs.settings.entries["target"]
        yield Problem(
            id="cpu-target-with-cuda-sources",
            what=f"{names} has CUDA sources, but the target is cpu ({target.origin})",
            remedy="name a GPU, or move the CUDA sources to cuda-sources in [[tool.torchwheel.extension]]",
            origin=origin,
        )


def _toolkit_not_installed(inputs: Inputs) -> Problem:
    packages = " ".join(f"'{requirement}'" for requirement in inputs.toolkit_requirements)
    return Problem(
        id=TOOLKIT_NOT_INSTALLED,
        what="there is no CUDA toolkit, and the packages that make one are not installed yet",
        why=f"a build installs them first: {packages}",
        remedy=f"build, or pip install {packages}, or name an installed toolkit with TORCHWHEEL_CUDA_PATH=",
    )


def _stable_abi(inputs: Inputs) -> Iterator[Problem]:
    for extension in inputs.extensions:
        if extension.stable_abi is not None:
            yield from stable_abi_problems(extension.stable_abi, inputs.torch.version, extension.origin)


def _compilers(inputs: Inputs, toolkit: Toolkit | None) -> Iterator[Problem]:
    cxx = inputs.host.compiler("cxx")
    if cxx is None or not cxx.found:
        yield _no_compiler(inputs, cxx)
        return
    version = inputs.compiler_versions.get(cxx.path) or cxx.version
    if not version:
        return
    yield from _too_old(inputs, cxx, version)
    if toolkit is None:
        return

    release = toolkits().release(toolkit.version)
    if release is not None and release.accepts(cxx.kind, version) is False:
        greatest = {"gcc": f"GCC {release.gcc_max}", "clang": f"Clang {release.clang_max}"}.get(cxx.kind)
        yield Problem(
            id="host-compiler-refused",
            what=f"CUDA {toolkit.version} does not take {cxx.path} {version} as host compiler",
            why=f"the newest that it takes is {greatest}"
            if greatest
            else "its version is outside of the accepted range",
            remedy="name another one with CXX=, for example CXX=g++-"
            f"{release.gcc_max}, or pass -allow-unsupported-compiler in the nvcc flags and "
            "-C skip-check=host-compiler-refused",
            origin="variable CXX" if inputs.settings.env.get("CXX") else "",
        )


def _too_old(inputs: Inputs, cxx: Compiler, version: str) -> Iterator[Problem]:
    """PyTorch's headers are of a C++ standard that old compilers do not know."""

    standard = inputs.torch.cxx_standard
    first = cxx_supports().get((standard, cxx.kind))
    if first is not None and not at_least(version, first):
        yield Problem(
            id="host-compiler-too-old",
            what=f"{cxx.path} {version} is too old for PyTorch {inputs.torch.version}",
            why=f"PyTorch's headers are C++{standard}, which {cxx.kind} knows from {first} on",
            remedy=f"name a newer one with CXX=, for example CXX=g++-{first.partition('.')[0]}",
            origin="variable CXX" if inputs.settings.env.get("CXX") else "",
        )


def _no_compiler(inputs: Inputs, cxx: Compiler | None) -> Problem:
    windows = inputs.host.system == "Windows"
    return Problem(
        id="no-host-compiler",
        what=f"the C++ compiler {cxx.path} does not exist" if cxx else "there is no C++ compiler on PATH",
        remedy="run in a 'x64 Native Tools Command Prompt' of Visual Studio"
        if windows
        else "install one (Debian, Ubuntu: apt install g++), or name it with CXX=",
        origin="variable CXX" if cxx else "",
    )
