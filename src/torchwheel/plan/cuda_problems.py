"""Why a CUDA toolkit cannot serve a build, and what to do when none can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.plan.cuda_support import (
    CudaNeeds,
    compiling_releases,
    first_pytorch_for,
    newest_accepted,
    serving_releases,
)
from torchwheel.pytorch.releases import CudaSupport
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.model import Toolkit, path_of
from torchwheel.toolkit.objections import compiled_by, lacks_architecture, outside_range, without_compiler
from torchwheel.toolkit.releases import ToolkitRelease
from torchwheel.toolkit.sources import SYSTEM, installable


def objections(toolkit: Toolkit, needs: CudaNeeds, origin: str) -> Iterator[Problem]:
    """Every reason why a toolkit cannot serve; ``origin`` is what led to it."""
    if toolkit.nvcc is None:
        yield without_compiler(toolkit, origin)
    if not needs.in_range(toolkit.version):
        setting = needs.settings.entries["cuda"]
        yield outside_range(toolkit, setting.text, setting.origin, origin)
    support = needs.support(toolkit.version)
    if support is CudaSupport.TOO_OLD:
        yield _too_old(toolkit, needs, origin)
    if support is CudaSupport.FAILS:
        yield _fails(toolkit, needs, origin)
    release = toolkits().release(toolkit.version)
    for architecture in needs.architectures.architectures:
        if release is not None and not release.compiles(architecture):
            yield lacks_architecture(toolkit, architecture, origin)


def untried(toolkit: Toolkit, needs: CudaNeeds, origin: str) -> Problem | None:
    """A toolkit that may serve, though it is newer than any that PyTorch's release was built with."""
    release = needs.release
    if release is None or needs.support(toolkit.version) is not CudaSupport.UNTRIED:
        return None
    return Problem(
        id="toolkit-untried",
        what=f"CUDA {toolkit.version} in {toolkit.root} is newer than any that PyTorch {release.minor_version} is "
        f"known to have been built with ({release.cuda.newest})",
        remedy=f"if the build fails, {_instead_of_untried(needs)}",
        origin=origin,
    )


def assumed(toolkit: Toolkit, reason: str) -> Problem:
    """Where and why a toolkit is taken for installed on a machine that cannot be looked into."""
    return Problem(
        id="toolkit-assumed",
        what=f"CUDA {toolkit.version} is assumed in {toolkit.root}",
        why=f"it is {reason}, and that is the installer's usual place",
        remedy="name the place with -C cuda-path= if it is another one",
    )


def from_pypi(
    toolkit: Toolkit, requirements: Sequence[str], reason: str, installed_in: Path | None
) -> Problem:
    """The toolkit is made of PyPI's packages, which is worth knowing before a gigabyte is downloaded.

    Args:
        toolkit: the toolkit.
        requirements: the packages.
        reason: why these; of no interest any more once they are installed.
        installed_in: the folder that they are installed in; None if they are not yet.
    """
    asked = " ".join(requirements)
    place = path_of(toolkit.root).parent
    if installed_in is None:
        why = f"{reason}; {asked} is installed for the build, and put together in {place}"
    else:
        why = f"it is made of the packages in {installed_in}"
    return Problem(
        id="toolkit-from-pypi",
        what=f"CUDA {toolkit.version} comes from PyPI",
        why=why,
        remedy="none needed; for an installed toolkit: -C cuda-from=system, or its folder with -C cuda-path=",
    )


def none_on_pypi(needs: CudaNeeds, refused: Sequence[Problem], origin: str) -> Problem:
    """PyPI's packages were asked for, and none of them can serve."""
    offered = _on_pypi(needs)
    serving = serving_releases(needs)
    able = [release for release in serving if release in offered]
    return Problem(
        id="pypi-cannot-serve",
        what="no CUDA toolkit from PyPI can serve" + "".join(f"; {problem.what}" for problem in refused),
        why=f"PyPI has nvcc of {_span(offered)} for {needs.host.platform_tag}; {_span(serving)} would do for "
        f"{needs.architectures} and {_pytorch(needs)}",
        remedy=f"install NVIDIA's toolkit of CUDA {serving[-1].version} and leave cuda-from out"
        if serving and not able
        else "leave cuda-from out, or build for other architectures with -C arch=",
        origin=origin,
    )


def none_installed(needs: CudaNeeds, version: str, reason: str, refused: Sequence[Problem]) -> Problem:
    """This machine has no toolkit that serves; ``version`` would, and is preferred for that reason."""
    return Problem(
        id="no-cuda-toolkit",
        what="no CUDA toolkit on this machine can serve: " + "; ".join(problem.what for problem in refused)
        if refused
        else "no CUDA toolkit was found",
        why="looked at CUDA_HOME and its kin, nvcc on PATH and the usual places; "
        f"{_span(serving_releases(needs))} would do for {needs.architectures}{_beside_pypi(needs)}",
        remedy=f"install CUDA {version} ({reason}), or name a toolkit with -C cuda-path=, "
        "or build without CUDA: -C target=cpu",
    )


def _beside_pypi(needs: CudaNeeds) -> str:
    """Why PyPI's packages were no way out, where they might have been one."""
    if needs.settings.cuda_from == SYSTEM:
        return ""
    return f"; PyPI has nvcc of {_span(_on_pypi(needs))} alone"


def _on_pypi(needs: CudaNeeds) -> list[ToolkitRelease]:
    offered = installable(needs.host.platform_tag)
    return [release for release in toolkits() if release.version in offered]


def none_released(needs: CudaNeeds) -> Problem:
    """No CUDA release could serve, wherever it were installed."""
    platform, listed = needs.host.platform_tag, needs.architectures
    if not any(platform in release.platforms for release in toolkits()):
        return Problem(
            id="no-cuda-for-platform",
            what=f"there is no CUDA toolkit for {platform}",
            remedy="build without CUDA: -C target=cpu",
        )
    if not toolkits().compiling_all(listed.architectures):
        return Problem(
            id="no-release-compiles",
            what=f"no CUDA release compiles for all of {listed}",
            why="; ".join(compiled_by(a) for a in listed.architectures),
            remedy="build a wheel for each part of the list",
        )
    setting = needs.settings.get("cuda")
    asked = f" in the range {setting.text} ({setting.origin})" if setting else ""
    widen = "widen the range with -C cuda=, or " if setting else ""
    return Problem(
        id="no-release-serves",
        what=f"no CUDA release{asked} builds {_pytorch(needs)} for {listed} on {platform}",
        why=f"{_span(compiling_releases(needs))} compiles for {listed}; "
        f"{_pytorch(needs)} needs {_pytorch_range(needs)}",
        remedy=f"{widen}build for other architectures with -C arch=, or build another release of PyTorch",
    )


def _instead_of_untried(needs: CudaNeeds) -> str:
    """An older CUDA if one compiles the architectures, else the PyTorch that was first built with one that does."""
    older = newest_accepted(needs, compiling_releases(needs))
    if older is not None:
        return f"use CUDA {older}: -C cuda={older}"
    first = first_pytorch_for(needs.architectures)
    if first is not None:
        return (
            f"take a newer PyTorch: {first} was the first with a CUDA that compiles for {needs.architectures}"
        )
    return "build for other architectures with -C arch="


def _too_old(toolkit: Toolkit, needs: CudaNeeds, origin: str) -> Problem:
    return Problem(
        id="toolkit-too-old",
        what=f"CUDA {toolkit.version} in {toolkit.root} is too old for {_pytorch(needs)}",
        why=f"it needs {_pytorch_range(needs)}",
        remedy="install a newer toolkit and name it with -C cuda-path=",
        origin=origin,
    )


def _fails(toolkit: Toolkit, needs: CudaNeeds, origin: str) -> Problem:
    return Problem(
        id="toolkit-too-new",
        what=f"{_pytorch(needs)} is known not to compile with CUDA {toolkit.version} ({toolkit.root})",
        why=f"it needs {_pytorch_range(needs)}",
        remedy="name an older toolkit with -C cuda-path=, or build a newer PyTorch",
        origin=origin,
    )


def _span(releases: Sequence[ToolkitRelease]) -> str:
    """The first and the last of a row of releases, in words."""
    if not releases:
        return "no CUDA for this platform"
    first, last = releases[0].version, releases[-1].version
    return f"CUDA {first}" if first == last else f"CUDA {first} to {last}"


def _pytorch(needs: CudaNeeds) -> str:
    return f"PyTorch {needs.tree.version_text}"


def _pytorch_range(needs: CudaNeeds) -> str:
    """The range that the tree and its release name, as far as they do."""
    known = needs.release.cuda if needs.release else None
    least = needs.tree.minimum_cuda or (known.minimum if known else None)
    parts = [f"CUDA {least} or later"] if least else []
    if known is not None and known.fails_from is not None:
        parts.append(f"{'' if parts else 'CUDA '}before {known.fails_from}")
    return " and ".join(parts) or "a CUDA that its own CMake files accept"
