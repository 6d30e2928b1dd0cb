"""Which official builds already run on a GPU, and how to install them: what makes building unnecessary."""

from __future__ import annotations

from dataclasses import dataclass

from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.runs_on import HowItRuns, Verdict, verdict
from torchwheel.pytorch.published_table import PublishedBuild
from torchwheel.pytorch.releases import Release

PREVIOUS_VERSIONS = "https://pytorch.org/get-started/previous-versions"

_BEST_FIRST = tuple(HowItRuns)


@dataclass(frozen=True)
class PipCommand:
    """How to install an official build.

    Attributes:
        arguments: the command, without the address of the index if it needs one.
        index: the label by which PyTorch's page names the index to take it from, None for PyPI.
    """

    arguments: tuple[str, ...]
    index: str | None

    @property
    def text(self) -> str:
        """The command as one types it; where there is ``URL`` in it, `index_note` tells what that is."""
        index_url = () if self.index is None else ("--index-url", "URL")
        return " ".join((*self.arguments, *index_url))

    @property
    def index_note(self) -> str:
        """Where the address of the index is found; empty for PyPI."""
        if self.index is None:
            return ""
        return f"URL is the address of the index {self.index!r}, which {PREVIOUS_VERSIONS} gives"


@dataclass(frozen=True)
class RunningBuild:
    """An official build that runs on a GPU: which it is, how it runs, and how to install it."""

    build: PublishedBuild
    verdict: Verdict
    command: PipCommand


def published_builds_that_run(
    release: Release, platform_tag: str, python_tag: str, gpu_capability: Architecture
) -> tuple[RunningBuild, ...]:
    """The official builds of a release that run on a GPU, best first.

    Native machine code is better than that for an earlier minor revision, and that is better than PTX; of
    equal ones PyPI's comes first, then the newest CUDA. What the driver at hand supports is not looked at.

    Args:
        release: the release.
        platform_tag: ``linux_x86_64``, ``linux_aarch64`` or ``win_amd64``.
        python_tag: the Python's ABI tag, ``cp312`` or ``cp314t``.
        gpu_capability: the GPU's compute capability.
    """
    found = [
        RunningBuild(build, answer, pip_command(build))
        for build in release.published(platform_tag, python_tag)
        if build.code is not None
        for answer in (verdict(build.code.targets, gpu_capability),)
        if answer.how.runs
    ]
    # The builds come with PyPI's first and then by CUDA version; sorting keeps that among equals.
    return tuple(sorted(found, key=lambda running: _BEST_FIRST.index(running.verdict.how)))


def pip_command(build: PublishedBuild) -> PipCommand:
    """The command that installs an official build."""
    return PipCommand(
        arguments=("pip", "install", f"torch=={build.torch}"),
        index=None if build.on_pypi else build.label,
    )
