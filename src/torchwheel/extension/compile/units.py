"""The compiled units: the spelling of their paths, the links for that, and unity files."""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

from torchwheel.extension.extension_plan import Language
from torchwheel.hardware.arch import ArchitectureList

SOURCE, TORCH, TOOLKIT = "source", "torch", "toolkit"


@dataclass(frozen=True)
class Layout:
    """The spelling of paths in commands that run in the build folder.

    With links in the build folder a command does not depend on the places of project, PyTorch and toolkit, so a
    compiler cache hits, and contains no spaces. On Windows creating links needs a privilege, so paths stay absolute.

    Attributes:
        links: name in the build folder -> its absolute target.
    """

    project: PurePath
    links: Mapping[str, PurePath] = field(default_factory=dict)

    def link(self, name: str) -> str:
        """The link with that last component, as commands spell it; empty for none."""
        return next((link for link in self.links if PurePosixPath(link).name == name), "")

    def spell(self, path: str | PurePath) -> str:
        """Spell a path for a command; relative paths are relative to the project.

        ``..`` is resolved before a link is inserted, because ninja would remove it together with the link;
        torch.utils.cpp_extension resolves it in sources, too.
        """
        whole = self.project / path
        if ".." in whole.parts:
            flavour = ntpath if isinstance(whole, PureWindowsPath) else posixpath
            whole = type(self.project)(flavour.normpath(whole))
        for name, folder in self.links.items():
            if whole.is_relative_to(folder):
                return str(PurePosixPath(name, *whole.relative_to(folder).parts))
        return whole.as_posix() if isinstance(whole, PureWindowsPath) else str(whole)


def layout_of(system: str, project: str, folders: Mapping[str, str]) -> Layout:
    """Return the layout for a machine and the folders (name -> absolute folder) to link.

    If a folder is inside another, such as an environment in a project, the inner one wins.
    """
    if system == "Windows":
        return Layout(PureWindowsPath(project))
    deepest_first = sorted(folders.items(), key=lambda item: -len(PurePosixPath(item[1]).parts))
    return Layout(PurePosixPath(project), {name: PurePosixPath(folder) for name, folder in deepest_first})


def write_links(folder: Path, links: Mapping[str, Path]) -> None:
    """Create or correct the links in a build folder."""
    for name, target in links.items():
        link = folder / name
        if link.is_symlink() and os.readlink(link) != str(target):
            link.unlink()
        if not link.is_symlink():
            link.symlink_to(target, target_is_directory=True)


@dataclass(frozen=True)
class Unit:
    """A unit to compile.

    Attributes:
        path: the file, as commands spell it: a source, or a generated file that includes several.
        name: the object file's name, below the extension's folder, without suffix.
    """

    path: str
    name: str
    language: Language
    sources: tuple[str, ...]
    architectures: ArchitectureList | None = None
    options: tuple[str, ...] = ()


def unity_file_count(sources: int) -> int:
    """The number of unity files for sources of one kind: the square root, so that several compilers have work.

    It depends only on the sources: other ``jobs`` do not recompile anything, and compiler caches hit.
    """
    return max(1, isqrt(sources))


def join_units(units: Sequence[Unit], folder: str) -> tuple[list[Unit], dict[str, str]]:
    """Join units with the same options; not for C, where names of different files would clash.

    Returns:
        The units, and the unity files: path in the build folder -> content.
    """
    joined: list[Unit] = []
    generated: dict[str, str] = {}
    kinds: dict[tuple[object, ...], list[Unit]] = {}
    for unit in units:
        if unit.language is Language.C:
            joined.append(unit)
        else:
            kinds.setdefault((unit.language, unit.architectures), []).append(unit)
    for group in kinds.values():
        count = unity_file_count(len(group))
        for index in range(count):
            members = group[index::count]
            if len(members) == 1:
                joined.append(members[0])
                continue
            unity, text = _unity_file(members, folder, len(generated))
            generated[unity.path] = text
            joined.append(unity)
    return joined, generated


def _unity_file(members: Sequence[Unit], folder: str, number: int) -> tuple[Unit, str]:
    suffix = ".cu" if members[0].language is Language.CUDA else ".cpp"
    name = f"unity-{number}"
    path = f"{folder}/{name}{suffix}"
    # An include in quotes is searched for from the folder of the file that has it, not from the build folder.
    up = "/".join([".."] * len(PurePosixPath(folder).parts))
    absolute = re.compile("/|.:")
    paths = (unit.path if absolute.match(unit.path) else f"{up}/{unit.path}" for unit in members)
    text = "".join(f'#include "{path}"\n' for path in paths)
    sources = tuple(source for unit in members for source in unit.sources)
    return replace(members[0], path=path, name=name, sources=sources), text
