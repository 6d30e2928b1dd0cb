"""Changing several files of a tree so that either all changes happen or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from torchwheel.errors import Problem, TorchwheelError


def change_files(root: Path, changes: Mapping[Path, bytes | None]) -> None:
    """Give files new contents (None: delete), in the order given, creating a missing parent folder.

    Everything is first written beside its place, so a full disk is met before anything is changed; then each
    file is replaced in one step. When a step fails, those before it are taken back.

    Args:
        root: the tree, for the message.

    Raises:
        TorchwheelError: the tree cannot be written to; it is as it was before.
    """
    before = {path: path.read_bytes() if path.is_file() else None for path in changes}
    folders = sorted({path.parent for path in changes if not path.parent.exists()})
    written: dict[Path, Path] = {}
    done: list[Path] = []
    try:
        for folder in folders:
            folder.mkdir()
        for path, content in changes.items():
            if content is not None:
                written[path] = _written_beside(path, content)
        for path in changes:
            if path in written:
                written[path].replace(path.resolve())
            else:
                path.unlink(missing_ok=True)
            done.append(path)
    except BaseException as error:
        _take_back(before, done, written, folders)
        if isinstance(error, OSError):
            raise _not_writable(root, error) from error
        raise


def _written_beside(path: Path, content: bytes) -> Path:
    # Beside the file itself where ``path`` is a symbolic link: a link is followed, never replaced.
    beside = path.resolve().with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_bytes(content)
        if path.exists():
            shutil.copymode(path, beside)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return beside


def _take_back(
    before: Mapping[Path, bytes | None], done: list[Path], written: Mapping[Path, Path], folders: list[Path]
) -> None:
    for path in done:
        content = before[path]
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)
    for beside in written.values():
        beside.unlink(missing_ok=True)
    for folder in folders:
        if folder.is_dir():
            folder.rmdir()


def _not_writable(root: Path, error: OSError) -> TorchwheelError:
    return TorchwheelError(
        Problem(
            id="tree-not-writable",
            what=f"{error.filename or root} cannot be written: {error.strerror}",
            remedy="make the tree writable and see that its disk has room, or leave it as it is and use "
            f"`torchwheel build {root} --target NAME`, which writes nothing to it",
            why="adopting is the one thing torchwheel does that edits the tree itself; nothing was changed",
            origin=str(root),
        )
    )
