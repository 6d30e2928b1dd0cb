"""Where the CUDA toolkit of a build comes from: this machine, or PyPI's packages. Nothing is read or installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.packages import packages, requirements_for

AUTO, SYSTEM, PYPI = WORDS = ("auto", "system", "pypi")
"""The values of ``cuda-from`` that are no path."""

Objections = Callable[[Toolkit], Sequence[Problem]]


@dataclass(frozen=True)
class PackagedToolkit:
    """A toolkit that installed packages make.

    Attributes:
        toolkit: the toolkit, at the place where it is assembled.
        site_packages: the folder that the packages are installed in.
    """

    toolkit: Toolkit
    site_packages: Path


@dataclass(frozen=True)
class Source:
    """The decision.

    Attributes:
        toolkit: the toolkit; None if packages must be installed first, or if nothing serves.
        site_packages: the folder with the packages that it is made of; None if it is not made of packages.
        release: the CUDA release to install from PyPI; empty for none.
        refused: why each toolkit that was looked at cannot serve, if none can.
    """

    toolkit: Toolkit | None = None
    site_packages: Path | None = None
    release: str = ""
    refused: tuple[Problem, ...] = ()

    @property
    def requirements(self) -> tuple[str, ...]:
        """What makes the toolkit, for installing; nothing for a toolkit of this machine."""
        if self.toolkit is not None and self.site_packages is None:
            return ()
        release = self.release or (self.toolkit.version if self.toolkit else "")
        return requirements_for(release) if release else ()


def choose_source(
    cuda_from: str,
    found: Iterable[Toolkit],
    packaged: Iterable[PackagedToolkit],
    releases: Iterable[str],
    objections: Objections,
) -> Source:
    """Decide by ``cuda-from``: a toolkit of this machine before packages, and installed packages before others.

    Args:
        cuda_from: one of :data:`WORDS`.
        found: the toolkits of this machine, preferred ones first.
        packaged: the toolkits that installed packages make, preferred ones first.
        releases: the CUDA releases that would serve, preferred ones first; those that :func:`installable` leaves.
        objections: why a toolkit cannot serve; nothing if it can.
    """
    refused: list[Problem] = []
    for toolkit in found if cuda_from != PYPI else ():
        if not (problems := objections(toolkit)):
            return Source(toolkit)
        refused.append(problems[0])
    if cuda_from == SYSTEM:
        return Source(refused=tuple(refused))
    for candidate in packaged:
        if not (problems := objections(candidate.toolkit)):
            return Source(candidate.toolkit, candidate.site_packages)
        refused.append(problems[0])
    return Source(release=next(iter(releases), ""), refused=tuple(refused))


def toolkits_folder(cache: Path) -> Path:
    """The folder of assembled toolkits in torchwheel's cache folder."""
    return cache / "toolkits"


def installable(platform_tag: str) -> tuple[str, ...]:
    """The CUDA releases that PyPI has with nvcc for a platform, oldest first."""
    return tuple(release.version for release in packages().with_nvcc(platform_tag))
