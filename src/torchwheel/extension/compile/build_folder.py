"""Writing a build folder: links and files whose content is right keep their times."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torchwheel.engine.replacing import replace_text


def write_links(folder: Path, links: Mapping[str, Path]) -> None:
    """Make links lead where they should.

    Args:
        folder: the build folder.
        links: path in it -> the folder that it leads to.
    """
    for name, target in links.items():
        _link(folder / name, target)


def write_text(file: Path, text: str) -> None:
    """Give a file this content, unless it has it."""
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        replace_text(file, text)


def _link(link: Path, folder: Path) -> None:
    if link.is_symlink():
        if os.readlink(link) == str(folder):
            return
        link.unlink()
    link.symlink_to(folder, target_is_directory=True)
