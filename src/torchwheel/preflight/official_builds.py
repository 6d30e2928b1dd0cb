"""What was officially published of a release, whatever the Python."""

from __future__ import annotations

from functools import cache

from torchwheel.pytorch.published_table import PLATFORMS, PublishedBuild
from torchwheel.pytorch.releases import Release
from torchwheel.versions import numbers

# Every CPython 3 that a release of PyTorch 2 could have been published for.
_ABI_TAGS = tuple(f"cp3{minor}" for minor in range(8, 20))


@cache
def builds_for(release: Release, platform_tag: str) -> tuple[PublishedBuild, ...]:
    """The official builds of a release for a platform."""
    found = (build for tag in _ABI_TAGS for build in release.published(platform_tag, tag))
    return tuple(dict.fromkeys(found))


@cache
def published_cuda_versions(release: Release) -> tuple[str, ...]:
    """The CUDA versions that a release was published with on any platform, oldest first."""
    found = {build.cuda for platform in PLATFORMS for build in builds_for(release, platform) if build.cuda}
    return tuple(sorted(found, key=numbers))


def published_pythons(release: Release, platform_tag: str) -> tuple[str, ...]:
    """The minor versions of Python that a release was published for, ``"3.14"``, oldest first."""
    tags = {tag.rstrip("t") for build in builds_for(release, platform_tag) for tag in build.python}
    return tuple(f"3.{minor}" for minor in sorted(int(tag.removeprefix("cp3")) for tag in tags))
