"""The CUDA releases that can build a target, for each PyTorch release and platform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchwheel.hardware.architecture import TURING
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.described import described_host
from torchwheel.preflight.build_matrix import Combination, combination_of, is_published
from torchwheel.preflight.checks import COMBINATION_CHECKS
from torchwheel.preflight.registry import Violation
from torchwheel.preflight.rule_base import read_rules
from torchwheel.pytorch.published import PLATFORMS, PublishedBuild, last_build_that_runs
from torchwheel.pytorch.releases import read_releases
from torchwheel.reporting.errors import Severity
from torchwheel.settings import Settings, load_settings
from torchwheel.toolkit.cuda_releases import read_toolkits

WITHOUT_CUDA = ""
"""A build without CUDA, among the versions of CUDA toolkits."""


@dataclass(frozen=True)
class ToolkitSupport:
    """The CUDA releases for one PyTorch release on one platform, each list oldest first.

    Attributes:
        pytorch: minor version.
        published: used by official builds of that PyTorch for that platform.
        untried: excluded by no rule, but not used by an official build.
        ruled_out: excluded by a rule, by the target's range, or by a known bug of their nvcc there.
    """

    platform: str
    pytorch: str
    published: tuple[str, ...]
    untried: tuple[str, ...]
    ruled_out: tuple[str, ...]


def toolkit_support(project: Path, target: str) -> tuple[ToolkitSupport, ...]:
    """Return the CUDA releases for a target, by platform and then by PyTorch release.

    Args:
        project: the folder whose pyproject.toml may describe targets.
        target: a GPU, a target of an overlay or of the project, or ``cpu``.

    Raises:
        TorchwheelError: the target is unknown, or its settings contradict each other on a platform.
    """
    return tuple(
        support for platform in _platforms_of(target) for support in _on_platform(project, target, platform)
    )


def last_official_builds(target: str) -> dict[str, PublishedBuild]:
    """Return the last official build for a GPU before Turing, by platform; nothing for other targets."""
    gpu = read_gpus().find(target)
    if gpu is None or gpu.compute_capability >= TURING:
        return {}
    last = {
        platform: last_build_that_runs(platform, gpu.compute_capability) for platform in _platforms_of(target)
    }
    return {platform: running.build for platform, running in last.items() if running}


def _platforms_of(target: str) -> tuple[str, ...]:
    """Return the platforms that have the GPU; all of them for other targets."""
    gpu = read_gpus().find(target)
    return tuple(one for one in PLATFORMS if gpu is None or one in gpu.platforms) or PLATFORMS


def _on_platform(project: Path, target: str, platform: str) -> Iterator[ToolkitSupport]:
    host = described_host(platform)
    settings = load_settings(project, {"target": target}, {}, host)
    # Patch releases of one minor version are built with the same toolkits.
    for release in {release.minor_version: release for release in read_releases()}.values():
        found: dict[str, list[str]] = {"published": [], "untried": [], "ruled_out": []}
        for version in (
            [WITHOUT_CUDA] if settings.is_cpu else [toolkit.version for toolkit in read_toolkits()]
        ):
            toolkit = read_toolkits().release(version) if version else None
            combination = combination_of(settings, host, toolkit, release, any_python=True)
            found[_support_status(settings, combination)].append(version)
        lists = {name: tuple(versions) for name, versions in found.items()}
        yield ToolkitSupport(platform, release.minor_version, **lists)


def _support_status(settings: Settings, combination: Combination) -> str:
    toolkit, wanted = combination.toolkit, settings.cuda
    if toolkit is not None and wanted is not None and not wanted.contains(toolkit.version):
        return "ruled_out"
    broken = {id for id, check in COMBINATION_CHECKS.items() if isinstance(check(combination), Violation)}
    if any(read_rules()[id].severity is Severity.ERROR for id in broken):
        return "ruled_out"
    if is_published(combination):
        return "published"
    # Not an error, because PyTorch works around some of them; but without an official build that is unproved.
    return "ruled_out" if "nvcc-bug" in broken else "untried"
