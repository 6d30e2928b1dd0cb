"""How the commands of a build spell paths, and the links in the build folder that this takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

SOURCE, TORCH, TOOLKIT = "source", "torch", "toolkit"


@dataclass(frozen=True)
class Layout:
    """The spelling of paths in commands that run in the build folder.

    With links in the build folder a command is the same wherever project, PyTorch and toolkit lie, so that a
    compiler cache knows it again, and holds no spaces. On Windows making links takes a privilege, so paths stay
    absolute there.

    Attributes:
        links: name in the build folder -> the folder it leads to, absolute.
    """

    project: PurePath
    links: Mapping[str, PurePath] = field(default_factory=dict)

    def spell(self, path: str | PurePath) -> str:
        """A path for a command: relative ones are relative to the project."""
        pure = type(self.project)(path)
        whole = pure if pure.is_absolute() else self.project / pure
        for name, folder in self.links.items():
            if whole.is_relative_to(folder):
                return str(PurePosixPath(name, *whole.relative_to(folder).parts))
        return whole.as_posix() if isinstance(whole, PureWindowsPath) else str(whole)


def layout_of(system: str, project: str, folders: Mapping[str, str]) -> Layout:
    """The layout for a machine, and the folders (name -> absolute folder) that can be linked there.

    Where one lies in another, as an environment does in a project, the inner one counts.
    """
    if system == "Windows":
        return Layout(PureWindowsPath(project))
    deepest_first = sorted(folders.items(), key=lambda item: -len(PurePosixPath(item[1]).parts))
    return Layout(PurePosixPath(project), {name: PurePosixPath(folder) for name, folder in deepest_first})


def write_links(folder: Path, links: Mapping[str, Path]) -> None:
    """Make links in a build folder lead where they should."""
    for name, target in links.items():
        link = folder / name
        if link.is_symlink() and os.readlink(link) != str(target):
            link.unlink()
        if not link.is_symlink():
            link.symlink_to(target, target_is_directory=True)
