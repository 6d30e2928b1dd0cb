"""A CUDA toolkit on a disk, as far as its files tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from torchwheel.toolkit.catalogue import ToolkitRelease
from torchwheel.versions import ReleaseRange, numbers

_FIRST_WITH_CCCL_APART = (13, 0)
_PATCHES = range(10)
"""More patch releases than any CUDA release has had."""


@dataclass(frozen=True)
class Toolkit:
    """One installed CUDA toolkit.

    Attributes:
        root: its folder, as it was named or found.
        version: the release, ``"13.0"``.
        full_version: nvcc's own version, ``"13.0.88"``, where a file tells it; else the same as ``version``.
        nvcc: path of the compiler, None when there is none (runtime packages alone).
        include_dirs: folders with the CUDA headers.
        library_dir: the folder with the CUDA runtime library, None when there is none.
        origin: what led to it, in words: ``"CUDA_HOME"``, ``"nvcc on PATH"``.
        identity: changes whenever the compiler changes.
        patch_release: the toolkit's own full version, ``"13.0.1"``; nvcc counts otherwise. None where no file tells it.
        own_release: what it says of itself where the table of releases does not have it yet.
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
    own_release: ToolkitRelease | None = None

    @property
    def cxx_include_dirs(self) -> tuple[str, ...]:
        """The folders of headers for C++ sources: from CUDA 13 on nvcc alone adds that of Thrust, CUB and libcu++.

        Source: https://docs.nvidia.com/cuda/archive/13.0.0/cuda-toolkit-release-notes (CCCL)
        """
        if numbers(self.version) < _FIRST_WITH_CCCL_APART:
            return self.include_dirs
        return (*self.include_dirs, *(str(path_of(folder) / "cccl") for folder in self.include_dirs))

    @property
    def bin_dir(self) -> str:
        """The folder of the compiler, and where it would be."""
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
    """A toolkit that installed packages of PyPI make.

    Attributes:
        toolkit: the toolkit, at the place where it is assembled.
        site_packages: the folder that the packages are installed in.
        requirements: the packages and their versions, as of PEP 508.
    """

    toolkit: Toolkit
    site_packages: Path
    requirements: tuple[str, ...]


def path_of(text: str) -> PurePath:
    """A path of the platform that its spelling shows: described machines need not be like this one."""
    windows = PureWindowsPath(text)
    return windows if windows.drive else PurePosixPath(text)


def in_range(release: str, patch_release: str | None, allowed: ReleaseRange | None) -> bool | None:
    """Whether a toolkit is in a range; None if its patch release decides that and is not known.

    Each clause is compared as exactly as it is written: ``<=12.9`` and ``==12.9.*`` take any 12.9, ``>=12.8.1`` and
    ``==12.9.1`` look at the patch release.

    Args:
        release: ``"12.9"``.
        patch_release: ``"12.9.1"``; None if it is not known.
        allowed: the range; None for any.
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
