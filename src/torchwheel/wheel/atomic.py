"""Files that appear under their final name only when they are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from torchwheel.errors import Problem, TorchwheelError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextlib.contextmanager
def complete_file(destination: Path) -> Iterator[BinaryIO]:
    """A file to write that takes its final name, replacing an older file, when the block ends without error.

    Until then it has a hidden temporary name in the same folder, because only there a rename is atomic. After
    an error nothing is left, and an older file of that name is untouched.

    Raises:
        TorchwheelError: the file cannot be written, e.g. because the disk is full.
    """
    temporary = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.part")
    try:
        with _removed_on_error(temporary):
            # Created here, not by tempfile, whose files are readable by their owner only.
            with temporary.open("xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(destination)
        _sync_folder(destination.parent)
    except OSError as error:
        raise TorchwheelError(_cannot_write(destination, error)) from error


@contextlib.contextmanager
def _removed_on_error(path: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable; Windows has no way to open a folder for that."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(destination: Path, error: OSError) -> Problem:
    if error.errno in _DISK_FULL:
        return Problem(
            id="disk-full",
            what=f"{destination.name} cannot be written: {error.strerror}",
            remedy=f"make room in {destination.parent}, or write to another folder",
            why="nothing was left behind",
            origin=str(destination),
        )
    return Problem(
        id="cannot-write",
        what=f"{destination.name} cannot be written: {error.strerror or error}",
        remedy=f"check that the folder {destination.parent} exists and that you may write there",
        origin=str(destination),
    )
