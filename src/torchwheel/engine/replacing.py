"""Writing files, never half: until all of one is there, the old one stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Give a file this content; until all of it is written, the old content stays.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    _replace(path, lambda part: part.write_text(text, encoding="utf-8"))


def replace_file(path: Path, source: Path, *, with_times: bool = False) -> None:
    """Give a file the content of another; until all of it is written, the old content stays.

    Args:
        path: the file.
        source: the other.
        with_times: whether to take over the other's times and permissions as well.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    copy = shutil.copy2 if with_times else shutil.copyfile
    _replace(path, lambda part: copy(source, part))


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".torchwheel-part")
    try:
        write(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
