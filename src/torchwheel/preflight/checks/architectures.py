"""Architectures, CUDA toolkit and PyTorch: whether the three go together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchwheel.hardware.architecture import Architecture
from torchwheel.preflight.answer import Answer, Broken, Fine, checks_combination
from torchwheel.preflight.combination import Combination
from torchwheel.preflight.official_builds import published_cuda_versions
from torchwheel.preflight.wording import listed, span
from torchwheel.pytorch.releases import CudaSupport, Release
from torchwheel.pytorch.version import dotted_number
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.releases import ToolkitRelease

_FAMILY_SUFFIX_SINCE = "2.9"
"""The release after https://github.com/pytorch/pytorch/pull/157999; 2.14.1 has it, 2.6.0 has not."""


@checks_combination("toolkit-lacks-architecture")
def compiles_all(combination: Combination) -> Answer:
    """nvcc stops at an architecture that it does not know."""
    code, release = combination.architectures, combination.toolkit
    if code is None or release is None:
        return None
    lacking = [architecture for architecture in code.architectures if not release.compiles(architecture)]
    if not lacking:
        return Fine({"version": release.version, "architectures": str(code)})
    values = {
        "version": release.version,
        "lacking": ", ".join(f"{architecture.sm} ({architecture.dotted})" for architecture in lacking),
        "span": "; ".join(_compiled_by(architecture) for architecture in lacking),
    }
    fitting = [found.version for found in toolkits().compiling_all(code.architectures)]
    return Broken(values, _nearest(release.version, fitting), combination.arch_origin)


def _compiled_by(architecture: Architecture) -> str:
    fitting = [release.version for release in toolkits().compiling_all([architecture])]
    if not fitting:
        return f"no known CUDA compiles for {architecture.sm}"
    if fitting[-1] == toolkits().newest().version:
        return f"{architecture.sm} is compiled by CUDA {fitting[0]} and later"
    return f"{architecture.sm} is compiled by CUDA {span(fitting)}"


@checks_combination("pytorch-refuses-toolkit")
def pytorch_takes(combination: Combination) -> Answer:
    """A toolkit that PyTorch's CMake refuses, or that is known not to compile the release."""
    pytorch, release = combination.pytorch, combination.toolkit
    if pytorch is None or release is None:
        return None
    values = {"pytorch": pytorch.version, "version": release.version}
    support = pytorch.cuda_accepts(release.version)
    reasons = {
        CudaSupport.TOO_OLD: f"its CMake asks for CUDA {pytorch.cuda.minimum} or later",
        CudaSupport.FAILS: f"CUDA {pytorch.cuda.fails_from} and later are known not to compile it",
    }
    if support not in reasons:
        return Fine(values)
    return Broken({**values, "reason": reasons[support]}, _nearest_accepted(combination, pytorch, release))


@checks_combination("toolkit-newer-than-pytorch")
def pytorch_knows(combination: Combination) -> Answer:
    """A toolkit that came after the release."""
    pytorch, release = combination.pytorch, combination.toolkit
    if pytorch is None or release is None:
        return None
    if pytorch.cuda_accepts(release.version) is not CudaSupport.UNTRIED:
        return Fine()
    values = {"pytorch": pytorch.version, "version": release.version, "newest": pytorch.cuda.newest}
    return Broken(values, _nearest_accepted(combination, pytorch, release))


@checks_combination("toolkit-never-published")
def pytorch_publishes(combination: Combination) -> Answer:
    """A toolkit that fits, but that no official build was made with."""
    pytorch, release = combination.pytorch, combination.toolkit
    if pytorch is None or release is None:
        return None
    published = published_cuda_versions(pytorch)
    if not published or pytorch.cuda_accepts(release.version) is not CudaSupport.ACCEPTED:
        return None
    values = {"pytorch": pytorch.version, "version": release.version}
    if release.version in published:
        return Fine(values)
    able = [version for version in published if _compiles(version, combination)]
    return Broken(
        {**values, "published": f"CUDA {listed(published)}"}, _nearest(release.version, able or published)
    )


@checks_combination("pytorch-lacks-family-suffix")
def pytorch_reads_suffixes(combination: Combination) -> Answer:
    """PyTorch's own parser of architectures knew ``f`` later than nvcc did."""
    code, pytorch = combination.architectures, combination.pytorch
    if code is None or pytorch is None:
        return None
    family = [architecture for architecture in code.architectures if architecture.suffix == "f"]
    values = {
        "pytorch": pytorch.version,
        "architectures": str(code),
        "since": f"PyTorch {_FAMILY_SUFFIX_SINCE}",
    }
    if not family or dotted_number(pytorch.version) >= dotted_number(_FAMILY_SUFFIX_SINCE):
        return Fine(values)
    plain = ";".join(
        dict.fromkeys(a.capability.dotted if a in family else a.dotted for a in code.architectures)
    )
    return Broken(values, plain, combination.arch_origin)


def _compiles(version: str, combination: Combination) -> bool:
    release, code = toolkits().release(version), combination.architectures
    return release is not None and (code is None or all(release.compiles(a) for a in code.architectures))


def _nearest_accepted(combination: Combination, pytorch: Release, release: ToolkitRelease) -> str:
    accepted = [
        found.version
        for found in toolkits()
        if pytorch.cuda_accepts(found.version) is CudaSupport.ACCEPTED
        and _compiles(found.version, combination)
    ]
    return _nearest(release.version, accepted)


def _nearest(version: str, versions: Sequence[str]) -> str:
    """The version of a list that lies nearest in the order of releases; a word for it when there is none."""
    order = [release.version for release in toolkits()]
    here = order.index(version)
    candidates: Iterable[str] = (candidate for candidate in versions if candidate in order)
    return min(
        candidates, key=lambda candidate: abs(order.index(candidate) - here), default="of another release"
    )
