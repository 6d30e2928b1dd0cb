"""The build matrix: settings, a toolkit release, a PyTorch release and a platform, without a machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.hardware.gpu_catalogue import KnownGpu, read_gpus
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.defines import is_known
from torchwheel.pytorch.published import PLATFORMS, index_is_known, published_builds
from torchwheel.pytorch.releases import CudaSupport, PytorchRelease, read_releases
from torchwheel.reporting.terminal import join_items
from torchwheel.settings import Setting
from torchwheel.toolkit.cuda_releases import ToolkitRelease, read_toolkits
from torchwheel.toolkit.read_toolkit import release_of


@dataclass(frozen=True)
class Combination:
    """One point of the matrix."""

    system: str
    machine: str
    platform_tag: str
    python: str
    architectures: ArchitectureList | None
    arch_origin: str
    target_gpus: tuple[KnownGpu, ...]
    toolkit: ToolkitRelease | None
    pytorch: PytorchRelease | None
    options: Mapping[str, Setting]
    unread: frozenset[str]

    def is_on(self, option: str) -> bool:
        """Whether an option is switched on explicitly."""
        return option in self.options and self.options[option].on

    def is_off(self, option: str) -> bool:
        return option in self.options and self.options[option].off

    @property
    def compiling_cuda(self) -> tuple[ToolkitRelease, ...]:
        """The CUDA releases that compile all of the architectures, oldest first."""
        return tuple(
            read_toolkits().compiling_all(self.architectures.architectures if self.architectures else ())
        )

    @property
    def accepted_cuda(self) -> tuple[ToolkitRelease, ...]:
        """The compiling releases that PyTorch's release accepts; none if that is unknown."""
        release = self.pytorch
        return tuple(
            found
            for found in self.compiling_cuda
            if release is not None and release.cuda_accepts(found.version) is CudaSupport.ACCEPTED
        )


def combination_of_plan(plan: Plan) -> Combination:
    settings, host = plan.settings, plan.host
    arch = settings.get("arch")
    found = (read_gpus().find(name) for name in settings.target_names)
    return Combination(
        system=host.system,
        machine=host.machine,
        platform_tag=host.platform_tag,
        python=host.python.version,
        architectures=None if settings.is_cpu else settings.arch,
        arch_origin=arch.origin if arch else "",
        target_gpus=tuple(gpu for gpu in found if gpu is not None),
        toolkit=release_of(plan.toolkit) if plan.toolkit and not settings.is_cpu else None,
        pytorch=read_releases().release(plan.tree.version_text),
        options=settings.defines,
        unread=frozenset(name for name in settings.defines if not is_known(plan.tree, name)),
    )


CMAKE_ARCHITECTURES = "CMAKE_CUDA_ARCHITECTURES"
"""CMake's own list of architectures, which PyTorch's CMake files ignore."""


def gpu_elsewhere(combination: Combination) -> KnownGpu | None:
    """The first target GPU that no machine of the platform has."""
    return next(
        (gpu for gpu in combination.target_gpus if combination.platform_tag not in gpu.platforms), None
    )


def is_published(combination: Combination) -> bool:
    """Whether PyTorch publishes builds of the release for the platform with the same CUDA, or likewise without."""
    pytorch, toolkit = combination.pytorch, combination.toolkit
    builds = published_builds(pytorch, combination.platform_tag) if pytorch else ()
    return any(build.cuda == (toolkit.version if toolkit else None) for build in builds)


def describe_evidence(combination: Combination) -> str:
    """Describe the evidence that PyTorch, CUDA and the platform are compatible; empty if the tables lack one."""
    pytorch, toolkit, platform = combination.pytorch, combination.toolkit, combination.platform_tag
    if pytorch is None or (toolkit is None and combination.architectures is not None):
        return ""
    cuda = f"CUDA {toolkit.version}" if toolkit else "no CUDA"
    builds = published_builds(pytorch, platform)
    if is_published(combination):
        return f"PyTorch {pytorch.version} is published for {platform} with {cuda}"
    if platform not in PLATFORMS:
        return f"not known here: whether PyTorch {pytorch.version} is published for {platform}"
    published = join_items(
        list(dict.fromkeys(f"CUDA {build.cuda}" if build.cuda else "no CUDA" for build in builds)), 9
    )
    if not index_is_known(pytorch):
        return (
            f"untried, as far as is known: of PyTorch {pytorch.version} for {platform} builds are known with "
            f"{published or 'nothing'}; what else PyTorch's own index has is not known here"
        )
    others = f"they are with {published}" if builds else "there is none of that release"
    build = f"no official build for {platform} is PyTorch {pytorch.version} with {cuda}"
    return f"untried, as far as is known: {build}; {others}"
