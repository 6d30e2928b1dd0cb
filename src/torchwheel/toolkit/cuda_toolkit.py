"""A CUDA toolkit on disk, as its files describe it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from torchwheel.versions import ReleaseRange

_PATCHES = range(10)
"""Patch releases to consider; no CUDA release has had more."""


@dataclass(frozen=True)
class Toolkit:
    """One installed CUDA toolkit.

    Attributes:
        full_version: nvcc's own version, ``"13.0.88"``, if a file states it; else ``version``.
    """

    root: str
    version: str
    full_version: str
    nvcc: str | None
    include_dirs: tuple[str, ...]
    library_dir: str | None
    origin: str
    identity: str
    patch_release: str | None = None

    @property
    def bin_dir(self) -> str:
        """The folder of the compiler, present or not."""
        if self.nvcc is not None:
            return str(path_of(self.nvcc).parent)
        return str(path_of(self.root) / "bin")


class ToolkitPackage(NamedTuple):
    """A part of a toolkit, by the name of its package on PyPI or by NVIDIA's in version.json: ``cuda_cudart``."""

    name: str
    version: str
    is_from_pypi: bool


@dataclass(frozen=True)
class PackagedToolkit:
    toolkit: Toolkit
    site_packages: Path
    requirements: tuple[str, ...]


def path_of(text: str) -> PurePath:
    """Parse a path for the platform that its spelling suggests, because a described machine may be another one."""
    windows = PureWindowsPath(text)
    return windows if windows.drive else PurePosixPath(text)


def in_range(release: str, patch_release: str | None, allowed: ReleaseRange | None) -> bool | None:
    """Whether a toolkit is in a range; None if that depends on an unknown patch release.

    Each clause is compared at its own precision: ``<=12.9`` and ``==12.9.*`` accept any 12.9, ``>=12.8.1`` and
    ``==12.9.1`` compare the patch release.
    """
    answers: set[bool | None] = set()
    for clause in allowed.specifiers if allowed is not None else ():
        if clause.version.removesuffix(".*").count(".") < 2:
            answers.add(clause.contains(release))
        elif patch_release is not None:
            answers.add(clause.contains(patch_release))
        else:
            possible = {clause.contains(f"{release}.{patch}") for patch in _PATCHES}
            answers.add(possible.pop() if len(possible) == 1 else None)
    return False if False in answers else None if None in answers else True
