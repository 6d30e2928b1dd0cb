"""The links of a build folder, through which its commands name the places of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def write_links(folder: Path, links: Mapping[str, Path]) -> None:
    """Make links lead where they should.

    Args:
        folder: the build folder.
        links: path in it -> the folder that it leads to.
    """
    for name, target in links.items():
        _link(folder / name, target)


def _link(link: Path, folder: Path) -> None:
    if link.is_symlink():
        if os.readlink(link) == str(folder):
            return
        link.unlink()
    link.symlink_to(folder, target_is_directory=True)
