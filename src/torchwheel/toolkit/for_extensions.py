"""The CUDA toolkit that compiles extensions of an installed PyTorch. Nothing is read or installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.findings import Finding, Severity, error, note
from torchwheel.hardware.architecture import Architecture
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.mismatch import mismatch_finding
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.objections import compiled_by, lacks_architecture, outside_range, without_compiler
from torchwheel.toolkit.packages import not_for_platform, packages, without_nvcc
from torchwheel.toolkit.sources import PYPI, SYSTEM, PackagedToolkit, choose_source, installable
from torchwheel.versions import ReleaseRange, numbers


@dataclass(frozen=True)
class ExtensionNeeds:
    """What extensions ask of a toolkit.

    Attributes:
        torch_cuda: the CUDA release of the installed PyTorch, ``"13.0"``.
        architectures: what must be compiled for.
        platform_tag: the machine's platform tag.
        cuda_from: the setting; a path is given as ``named`` instead.
        cuda_mismatch: the setting.
        allowed: the versions that the ``cuda`` setting allows; None for any.
        allowed_origin: where that is set.
        missing_headers: folder of a toolkit -> the headers that PyTorch's own headers include and it lacks.
    """

    torch_cuda: str
    architectures: Sequence[Architecture]
    platform_tag: str
    cuda_from: str = "auto"
    cuda_mismatch: str = "minor"
    allowed: ReleaseRange | None = None
    allowed_origin: str = ""
    missing_headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ExtensionToolkit:
    """The decision.

    Attributes:
        toolkit: the toolkit; None if packages must be installed first, or if none serves.
        site_packages: the folder with the packages that it must be assembled of; None for an installed toolkit.
        requirements: what must be installed before there is a toolkit; empty if there is one.
        findings: errors if none serves or the named one cannot; else what is worth knowing.
        release: the CUDA release that the requirements bring; empty without requirements.
    """

    toolkit: Toolkit | None
    site_packages: Path | None
    requirements: tuple[str, ...]
    findings: tuple[Finding, ...]
    release: str = ""


def toolkit_for_extensions(
    needs: ExtensionNeeds,
    named: Toolkit | None,
    found: Iterable[Toolkit],
    packaged: Iterable[PackagedToolkit] = (),
) -> ExtensionToolkit:
    """Choose the toolkit: one of PyTorch's own CUDA release before others, an installed one before PyPI's.

    Args:
        needs: what it must do.
        named: the toolkit at ``cuda-path``; taken or refused, never replaced.
        found: the toolkits on this machine, best first.
        packaged: the toolkits that installed packages make.
    """
    if named is not None:
        problems = tuple(objections(named, needs))
        findings = tuple(error(problem) for problem in problems) or _mismatch(
            named.version, needs, named.origin
        )
        return ExtensionToolkit(named, None, (), findings)
    source = choose_source(
        needs.cuda_from,
        sorted(found, key=lambda toolkit: _distance(toolkit.version, needs)),
        sorted(packaged, key=lambda one: _distance(one.toolkit.version, needs)),
        installable_releases(needs),
        lambda toolkit: (*objections(toolkit, needs), *_incomplete(toolkit, needs)),
    )
    if source.toolkit is not None:
        findings = _mismatch(source.toolkit.version, needs, source.toolkit.origin)
        return ExtensionToolkit(source.toolkit, source.site_packages, (), findings)
    if source.release:
        said = note(_from_pypi(source.release, source.requirements))
        return ExtensionToolkit(
            None,
            None,
            source.requirements,
            (said, *_mismatch(source.release, needs, "PyPI")),
            source.release,
        )
    return ExtensionToolkit(None, None, (), (error(_none(needs, source.refused)),))


def objections(toolkit: Toolkit, needs: ExtensionNeeds) -> Iterator[Problem]:
    """Every reason why a toolkit cannot serve."""
    if toolkit.nvcc is None:
        yield without_compiler(toolkit, toolkit.origin)
    if needs.allowed is not None and not needs.allowed.contains(toolkit.version):
        yield outside_range(toolkit, str(needs.allowed), needs.allowed_origin, toolkit.origin)
    for finding in _mismatch(toolkit.version, needs, toolkit.origin):
        if finding.severity is Severity.ERROR:
            yield finding.problem
    release = toolkits().release(toolkit.version)
    for architecture in needs.architectures:
        if release is not None and not release.compiles(architecture):
            yield lacks_architecture(toolkit, architecture, toolkit.origin)


def _incomplete(toolkit: Toolkit, needs: ExtensionNeeds) -> Iterator[Problem]:
    """Headers that it lacks; no objection to a toolkit that somebody names, since few kernels need none of them."""
    missing = needs.missing_headers.get(toolkit.root, ())
    if missing:
        yield Problem(
            id="toolkit-lacks-headers",
            what=f"the CUDA toolkit in {toolkit.root} has no {', '.join(missing)}",
            why="PyTorch's own CUDA headers include them",
            remedy=f"install the whole toolkit; if your kernels need none of them: -C cuda-path={toolkit.root}",
            origin=toolkit.origin,
        )


def installable_releases(needs: ExtensionNeeds) -> tuple[str, ...]:
    """The CUDA releases of PyPI that could serve, the one nearest to PyTorch's first."""
    able = {release.version for release in toolkits().compiling_all(needs.architectures)}
    serving = [
        version
        for version in installable(needs.platform_tag)
        if version in able
        and (needs.allowed is None or needs.allowed.contains(version))
        and not any(f.severity is Severity.ERROR for f in _mismatch(version, needs, ""))
    ]
    return tuple(sorted(serving, key=lambda version: _distance(version, needs)))


def _mismatch(version: str, needs: ExtensionNeeds, origin: str) -> tuple[Finding, ...]:
    finding = mismatch_finding(version, needs.torch_cuda, needs.cuda_mismatch, origin)
    return () if finding is None else (finding,)


def _distance(version: str, needs: ExtensionNeeds) -> tuple[int, int]:
    """How far a CUDA release is from PyTorch's: by major versions, then by minor ones."""
    (major, minor), (own_major, own_minor) = numbers(version, 2), numbers(needs.torch_cuda, 2)
    return abs(major - own_major), abs(minor - own_minor)


def _from_pypi(release: str, requirements: Sequence[str]) -> Problem:
    return Problem(
        id="toolkit-from-pypi",
        what=f"CUDA {release} comes from PyPI",
        why=f"{' '.join(requirements)} is installed for the build",
        remedy="none needed; for an installed toolkit: -C cuda-from=system, or its folder with -C cuda-path=",
    )


def _none(needs: ExtensionNeeds, refused: Sequence[Problem]) -> Problem:
    """No toolkit serves: what was looked at, why PyPI does not help, and what to do."""
    on_pypi = _pypi_problem(needs)
    if needs.cuda_from == PYPI and not refused:
        return on_pypi
    looked = "; ".join(problem.what for problem in refused)
    why = "cuda-from is system, so PyPI's packages are not used"
    return Problem(
        id="no-cuda-toolkit",
        what=f"no CUDA toolkit can serve: {looked}" if looked else "no CUDA toolkit was found",
        why=why if needs.cuda_from == SYSTEM else f"{on_pypi.what}; {on_pypi.why}",
        remedy="leave cuda-from out, so that PyPI's packages serve, or name a toolkit with -C cuda-path="
        if needs.cuda_from == SYSTEM and installable_releases(needs)
        else on_pypi.remedy,
    )


def _pypi_problem(needs: ExtensionNeeds) -> Problem:
    """Why none of PyPI's releases serves."""
    release = packages().release(needs.torch_cuda)
    if release is None or not release.nvcc:
        return without_nvcc(needs.torch_cuda)
    if needs.platform_tag not in release.platforms:
        return not_for_platform(release.version, needs.platform_tag)
    missing = [a for a in needs.architectures if release.version not in _compiling(a)]
    asked = f" in the range {needs.allowed} ({needs.allowed_origin})" if needs.allowed is not None else ""
    return Problem(
        id="pypi-cannot-serve",
        what=f"PyPI has no CUDA{asked} that serves a PyTorch with CUDA {release.version}",
        why="; ".join(compiled_by(architecture) for architecture in missing)
        or f"cuda-mismatch is {needs.cuda_mismatch}",
        remedy="build for other architectures with -C arch=, or widen the range with -C cuda= or -C cuda-mismatch=",
    )


def _compiling(architecture: Architecture) -> frozenset[str]:
    return frozenset(release.version for release in toolkits().compiling_all([architecture]))
