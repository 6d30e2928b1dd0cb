"""Which files of a tree are its source: what a stage copies and an sdist holds, without what a build left there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.tree.git import run_git

_GIT = ".git"
_LIST = ("ls-files", "-z", "--others", "--exclude-standard")


@dataclass(frozen=True)
class Sources:
    """What of a tree is source. Paths are relative to the tree, with ``/``.

    Attributes:
        files: every file, sorted; links are files.
        checkouts: the folders that git knows: the tree itself (``""``), its submodules and theirs.
    """

    files: tuple[str, ...]
    checkouts: tuple[str, ...]


def source_files(root: Path) -> Sources:
    """The source in a tree.

    Where there is git, it says: what is tracked, and what is neither tracked nor ignored, of the tree and of every
    submodule. Elsewhere, and among what git takes for new, what builds leave is known by its name
    (``build_outputs.toml``).

    Raises:
        OSError: a folder cannot be read.
    """
    files: list[str] = []
    checkouts: list[str] = []
    pending = [""]
    while pending:
        below = pending.pop()
        listed = _listed(root / below)
        if listed is None:
            files += _walked(root, below)
            continue
        checkouts.append(below.rstrip("/"))
        for entry, tracked in listed.items():
            relative = below + entry.rstrip("/")
            path = root / relative
            if not tracked and _is_build_output(relative):
                continue
            if path.is_dir() and not path.is_symlink():
                pending.append(relative + "/")
            elif os.path.lexists(path):
                files.append(relative)
    return Sources(tuple(sorted(files)), tuple(checkouts))


def _listed(folder: Path) -> dict[str, bool] | None:
    """What git lists of a checkout, and whether it is tracked; a folder in it is a submodule or another repository.

    A repository that is ignored counts: PyTorch's build clones nccl into one, and finds it there the next time.
    """
    if not (folder / _GIT).exists():
        return None
    known = run_git(folder, *_LIST, "--cached", "-t")
    ignored = run_git(folder, *_LIST, "--ignored", "--directory")
    if known is None or ignored is None:
        return None
    clones = [name for name in ignored.split("\0") if name.endswith("/") and (folder / name / _GIT).exists()]
    lines = [line for line in known.split("\0") if line]
    return {**dict.fromkeys(clones, False), **{line[2:]: line[0] != "?" for line in lines}}


def _walked(root: Path, below: str) -> Iterator[str]:
    pending = [below]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                relative = prefix + entry.name
                if _is_build_output(relative):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(relative + "/")
                elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                    yield relative


def _is_build_output(relative: str) -> bool:
    return _build_outputs().match(relative) is not None


@cache
def _build_outputs() -> re.Pattern[str]:
    """Matches a path from the tree's root that is, or lies in, what ``build_outputs.toml`` names."""
    table = read_toml(Path(__file__).with_name("build_outputs.toml"))
    names = "|".join(map(re.escape, table["anywhere"]))
    paths = "|".join(_translated(pattern) for pattern in table["paths"])
    return re.compile(rf"(?:(?:.*/)?(?:{names})|{paths})(?:/|\Z)", re.DOTALL)


def _translated(pattern: str) -> str:
    """``*`` as anything in one name."""
    return "[^/]*".join(re.escape(part) for part in pattern.split("*"))
