"""Which CUDA toolkit a build uses, and every place where PyTorch looks for it.

PyTorch finds CUDA by several unrelated pieces of CMake. Its own FindCUDA reads the environment variables
CUDA_PATH, CUDA_BIN_PATH and CUDA_TOOLKIT_ROOT, nvcc on PATH, or -DCUDA_TOOLKIT_ROOT_DIR; enable_language(CUDA)
reads CUDACXX or -DCMAKE_CUDA_COMPILER; FindCUDAToolkit reads CUDAToolkit_ROOT; setup.py reads CUDA_HOME.
All of them are therefore told the same path
(https://github.com/pytorch/pytorch/tree/v2.14.1/cmake/Modules_CUDA_fix, pytorch issue 8092).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchwheel.errors import Problem
from torchwheel.findings import Finding, error, note
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.model import Host
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.toolkit.assumed import assumed_toolkit
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.model import Toolkit

HOME_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_BIN_PATH", "CUDA_TOOLKIT_ROOT", "CUDAToolkit_ROOT")


@dataclass(frozen=True)
class ToolkitChoice:
    """The toolkit of a build, which setting chose it, and what there is to say about it.

    Attributes:
        toolkit: the toolkit; one at the usual place is assumed where none was found.
        layer: the layer of the deciding setting.
        origin: the deciding setting, in words.
        findings: errors if it cannot serve, notes if it is assumed.
    """

    toolkit: Toolkit | None
    layer: Layer
    origin: str
    findings: tuple[Finding, ...] = ()


def choose_toolkit(
    settings: Settings,
    architectures: ArchitectureList,
    host: Host,
    named: Toolkit | None,
    found: Sequence[Toolkit],
) -> ToolkitChoice:
    """Choose the CUDA toolkit.

    A named toolkit (``cuda-path``) is taken or refused, never replaced. Else the first found one that lies in
    the ``cuda`` range and compiles every architecture is taken. Else the newest release that could serve is
    assumed at its usual place, with an error if the plan is for this machine.

    Args:
        settings: what was asked for.
        architectures: what must be compiled for.
        host: the machine that the plan is for.
        named: the toolkit at ``cuda-path``, if that is set.
        found: the toolkits on this machine, best first.
    """
    if named is not None:
        setting = settings.entries["cuda-path"]
        problems = _objections(named, settings, architectures, setting.origin)
        return ToolkitChoice(named, setting.layer, setting.origin, tuple(error(p) for p in problems))
    refused: list[tuple[Toolkit, Problem]] = []
    for toolkit in found:
        problems = _objections(toolkit, settings, architectures, toolkit.origin)
        if not problems:
            return ToolkitChoice(toolkit, Layer.DEFAULT, f"found by {toolkit.origin}")
        refused.append((toolkit, problems[0]))
    return _assume(settings, architectures, host, refused)


def _objections(
    toolkit: Toolkit, settings: Settings, architectures: ArchitectureList, origin: str
) -> tuple[Problem, ...]:
    """Every reason why this toolkit cannot serve."""
    problems = []
    if toolkit.nvcc is None:
        problems.append(
            Problem(
                id="toolkit-without-nvcc",
                what=f"the CUDA toolkit in {toolkit.root} has no compiler: there is no bin/nvcc",
                why="PyPI's and conda's runtime packages bring the libraries alone",
                remedy="install a complete CUDA toolkit and name it with -C cuda-path=",
                origin=origin,
            )
        )
    wanted = settings.cuda_range
    if wanted is not None and not wanted.contains(toolkit.version, prereleases=True):
        range_setting = settings.entries["cuda"]
        problems.append(
            Problem(
                id="toolkit-outside-range",
                what=f"the CUDA toolkit in {toolkit.root} is {toolkit.version}, but {wanted} is asked for "
                f"({range_setting.origin})",
                remedy=f"name another toolkit with -C cuda-path=, or another range with -C cuda={toolkit.version}",
                origin=origin,
            )
        )
    release = toolkits().release(toolkit.version)
    for architecture in architectures.architectures:
        if release is not None and not release.compiles(architecture):
            problems.append(
                _cannot_compile(toolkit, architecture.dotted, architecture.sm, origin, architectures)
            )
    return tuple(problems)


def _cannot_compile(toolkit: Toolkit, dotted: str, sm: str, origin: str, wanted: ArchitectureList) -> Problem:
    catalogue = toolkits()
    lacking = next(a for a in wanted.architectures if a.dotted == dotted)
    earliest, latest = catalogue.earliest_for(lacking), catalogue.latest_for(lacking)
    newest = catalogue.newest().version
    span = f"CUDA {earliest} and later" if latest == newest else f"CUDA {earliest} to {latest}"
    return Problem(
        id="toolkit-lacks-architecture",
        what=f"CUDA {toolkit.version} in {toolkit.root} cannot compile for {sm} ({dotted})",
        why=f"{sm} is compiled by {span}",
        remedy=f"install such a toolkit and name it with -C cuda-path=, or leave {dotted} out of the architectures",
        origin=origin,
    )


def _assume(
    settings: Settings,
    architectures: ArchitectureList,
    host: Host,
    refused: Sequence[tuple[Toolkit, Problem]],
) -> ToolkitChoice:
    wanted = settings.cuda_range
    fitting = [
        release
        for release in toolkits()
        if all(release.compiles(a) for a in architectures.architectures)
        and (wanted is None or wanted.contains(release.version, prereleases=True))
    ]
    setting = settings.get("cuda")
    layer, origin = (setting.layer, setting.origin) if setting else (Layer.DEFAULT, "the newest release")
    if not fitting:
        return ToolkitChoice(None, layer, origin, (error(_no_release(architectures, setting)),))
    toolkit = assumed_toolkit(fitting[-1].version, host.platform_tag)
    if not host.here:
        problem = Problem(
            id="toolkit-assumed",
            what=f"CUDA {toolkit.version} is assumed in {toolkit.root}",
            remedy="name the place with -C cuda-path= if it is another one",
        )
        return ToolkitChoice(toolkit, layer, origin, (note(problem),))
    span = _span(fitting[0].version, fitting[-1].version)
    problem = Problem(
        id="no-cuda-toolkit",
        what="no CUDA toolkit on this machine can serve: " + "; ".join(problem.what for _, problem in refused)
        if refused
        else "no CUDA toolkit was found",
        why="looked at CUDA_HOME and its kin, nvcc on PATH and the usual places; "
        f"{span} would do for {architectures}",
        remedy=f"install CUDA {toolkit.version}, or name a toolkit with -C cuda-path=, or build without CUDA: "
        "-C target=cpu",
    )
    return ToolkitChoice(toolkit, layer, origin, (error(problem),))


def _span(first: str, last: str) -> str:
    return f"CUDA {first}" if first == last else f"CUDA {first} to {last}"


def _no_release(architectures: ArchitectureList, setting: Setting | None) -> Problem:
    asked = f" in the range {setting.text} ({setting.origin})" if setting else ""
    return Problem(
        id="no-release-compiles",
        what=f"no CUDA release{asked} compiles for all of {architectures}",
        remedy="widen the range with -C cuda=, or build for fewer architectures at a time",
    )
