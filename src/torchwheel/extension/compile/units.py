"""The spelling of paths in commands, the links for that, and unity files."""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

SOURCE, TORCH, TOOLKIT = "source", "torch", "toolkit"


@dataclass(frozen=True)
class Layout:
    """The spelling of paths in commands that run in the build folder, by links there (name -> absolute target).

    So a command does not depend on the places of project, PyTorch and toolkit, and a compiler cache hits; and it has no
    spaces. On Windows creating links needs a privilege, so paths stay absolute.
    """

    project: PurePath
    links: Mapping[str, PurePath] = field(default_factory=dict)

    def spell(self, path: str | PurePath) -> str:
        """Spell a path for a command; relative paths are relative to the project."""
        whole = self.project / path
        if ".." in whole.parts:
            # Ninja would remove it together with a link. PyTorch's own resolves it in sources, too.
            flavour = ntpath if isinstance(whole, PureWindowsPath) else posixpath
            whole = type(self.project)(flavour.normpath(whole))
        for name, folder in self.links.items():
            if whole.is_relative_to(folder):
                return str(PurePosixPath(name, *whole.relative_to(folder).parts))
        return whole.as_posix() if isinstance(whole, PureWindowsPath) else str(whole)


def layout_of(system: str, project: str, folders: Mapping[str, str]) -> Layout:
    """Return the layout for a machine and the folders (name -> absolute folder) to link."""
    if system == "Windows":
        return Layout(PureWindowsPath(project))
    # Of an environment in a project the inner one wins.
    deepest_first = sorted(folders.items(), key=lambda item: -len(PurePosixPath(item[1]).parts))
    return Layout(PurePosixPath(project), {name: PurePosixPath(folder) for name, folder in deepest_first})


def write_links(folder: Path, links: Mapping[str, PurePath]) -> None:
    for name, target in links.items():
        link = folder / name
        if link.is_symlink() and os.readlink(link) != str(target):
            link.unlink()
        if not link.is_symlink():
            link.symlink_to(target, target_is_directory=True)


def unity_groups(kinds: Mapping[str, object]) -> Iterator[tuple[str, ...]]:
    """Yield the sources of each file to compile: of each kind as many files as the square root of its sources.

    So several compilers have work, and other ``jobs`` do not recompile anything.
    """
    groups: dict[object, list[str]] = {}
    for source, kind in kinds.items():
        groups.setdefault(kind, []).append(source)
    for group in groups.values():
        count = isqrt(len(group))
        yield from (tuple(group[index::count]) for index in range(count))


def unity_text(paths: Iterable[str], folder: str) -> str:
    """Return a file in ``folder`` that includes sources, as commands spell their paths."""
    # An include in quotes is searched for from the folder of the file that has it, not from the build folder.
    up = "/".join([".."] * len(PurePosixPath(folder).parts))
    absolute = re.compile("/|.:")
    return "".join(f'#include "{path if absolute.match(path) else f"{up}/{path}"}"\n' for path in paths)
