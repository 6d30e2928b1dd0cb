"""Which CUDA releases could build a tree for some architectures, and which of them to prefer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.model import Host
from torchwheel.pytorch.published import published_builds
from torchwheel.pytorch.releases import CudaSupport, PytorchRelease, releases
from torchwheel.settings import Settings
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.releases import ToolkitRelease
from torchwheel.toolkit.sources import PYPI, installable
from torchwheel.tree.model import Tree
from torchwheel.versions import numbers

HOPELESS = frozenset({CudaSupport.TOO_OLD, CudaSupport.FAILS})
"""With such a toolkit the build would only fail later."""

_DEFAULT_PLATFORM = "linux_x86_64"


@dataclass(frozen=True)
class CudaNeeds:
    """What a build asks of a CUDA toolkit.

    Attributes:
        settings: the range and the path that were asked for.
        tree: what is built.
        architectures: what must be compiled for.
        host: the machine that the toolkit must run on.
    """

    settings: Settings
    tree: Tree
    architectures: ArchitectureList
    host: Host

    @property
    def release(self) -> PytorchRelease | None:
        """The PyTorch release that the tree belongs to; None if that is not known."""
        return releases().release(self.tree.version_text)

    def in_range(self, cuda: str) -> bool:
        """Whether the ``cuda`` setting allows a toolkit of that version."""
        wanted = self.settings.cuda_range
        return wanted is None or wanted.contains(cuda)

    def support(self, cuda: str) -> CudaSupport:
        """What is known of building the tree with a toolkit of that version.

        The least that the tree's own CMake files name counts for more than what is known of its release.
        """
        least = self.tree.minimum_cuda
        if least is not None and numbers(cuda, 2) < numbers(least, 2):
            return CudaSupport.TOO_OLD
        support = CudaSupport.UNKNOWN if self.release is None else self.release.cuda_accepts(cuda)
        return CudaSupport.UNKNOWN if least and support is CudaSupport.TOO_OLD else support


def compiling_releases(needs: CudaNeeds) -> tuple[ToolkitRelease, ...]:
    """The CUDA releases for that machine that compile all the architectures, oldest first; perhaps none does."""
    return tuple(
        release
        for release in toolkits().compiling_all(needs.architectures.architectures)
        if needs.host.platform_tag in release.platforms
    )


def serving_releases(needs: CudaNeeds) -> tuple[ToolkitRelease, ...]:
    """The CUDA releases that could serve, oldest first; perhaps none could."""
    return tuple(
        release
        for release in compiling_releases(needs)
        if needs.in_range(release.version) and needs.support(release.version) not in HOPELESS
    )


def newest_accepted(needs: CudaNeeds, among: Iterable[ToolkitRelease]) -> str | None:
    """The newest CUDA release that PyTorch's release is known to take; None if none is."""
    accepted = [r.version for r in among if needs.support(r.version) is CudaSupport.ACCEPTED]
    return accepted[-1] if accepted else None


def packaged_releases(needs: CudaNeeds) -> tuple[ToolkitRelease, ...]:
    """The CUDA releases that could serve and that PyPI has with nvcc, oldest first.

    One that PyTorch's release is not known to take is among them only if PyPI's was asked for.
    """

    offered = installable(needs.host.platform_tag)
    asked = needs.settings.cuda_from == PYPI
    return tuple(
        release
        for release in serving_releases(needs)
        if release.version in offered and (asked or needs.support(release.version) is not CudaSupport.UNTRIED)
    )


def preferred_release(needs: CudaNeeds, serving: Sequence[ToolkitRelease]) -> tuple[str, str] | None:
    """The CUDA release to take of those that could serve, and the reason in words; None if there is none.

    That is the one of the wheels that PyPI has, else the newest that PyTorch's release is known to take, else
    the one nearest above those. For a tree of no known release it is the newest of all.

    Args:
        needs: what the toolkit must do.
        serving: some or all of :func:`serving_releases`.
    """
    if not serving:
        return None
    release = needs.release
    if release is None:
        return serving[-1].version, "the newest CUDA"
    published = _default_cuda(release, needs.host)
    if published is not None and published in [r.version for r in serving]:
        return published, f"what PyTorch {release.minor_version} is published with"
    accepted = newest_accepted(needs, serving)
    if accepted is not None:
        return accepted, f"the newest that PyTorch {release.minor_version} is known to take"
    return serving[0].version, f"nearest to what PyTorch {release.minor_version} is known to take"


def first_pytorch_for(architectures: ArchitectureList) -> str | None:
    """The first minor version of PyTorch that was built with a CUDA which compiles all of these."""
    compiling = [release.version for release in toolkits().compiling_all(architectures.architectures)]
    for release in releases():
        if any(release.cuda_accepts(cuda) is CudaSupport.ACCEPTED for cuda in compiling):
            return release.minor_version
    return None


def _default_cuda(release: PytorchRelease, host: Host) -> str | None:
    """The CUDA of PyPI's wheels: this platform's, or where those have none (Windows), Linux's."""
    for platform in (host.platform_tag, _DEFAULT_PLATFORM):
        for build in published_builds(release, platform, host.python.abi_tag):
            if build.on_pypi and build.cuda is not None:
                return build.cuda
    return None
