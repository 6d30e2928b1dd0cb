"""A CUDA toolkit on a disk, as far as its files tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath


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
    """

    root: str
    version: str
    full_version: str
    nvcc: str | None
    include_dirs: tuple[str, ...]
    library_dir: str | None
    origin: str
    identity: str

    @property
    def bin_dir(self) -> str:
        """The folder of the compiler, and where it would be."""
        if self.nvcc is not None:
            return str(path_of(self.nvcc).parent)
        return str(path_of(self.root) / "bin")


def path_of(text: str) -> PurePath:
    """A path of the platform that its spelling shows: described machines need not be like this one."""
    windows = PureWindowsPath(text)
    return windows if windows.drive else PurePosixPath(text)
