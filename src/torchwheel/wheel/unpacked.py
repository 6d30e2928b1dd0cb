"""Members of a wheel that are read at any position: shared libraries.

The section table, which tells where device code and symbols are, stands at the end of a library, so one pass over the
compressed stream cannot use it, and searching the stream for the fat binaries' magic number would guess. A temporary
file costs 0.4 s more for a library of 500 MB, and no memory.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.wheel.archive import WheelArchive


@contextlib.contextmanager
def unpacked(archive: WheelArchive, name: str) -> Iterator[BinaryIO]:
    """A member as a seekable stream, for as long as the block lasts.

    Args:
        archive: the wheel.
        name: a key of its ``members``.

    Raises:
        TorchwheelError: there is no room for it, or it is damaged.
    """
    size = archive.members[name].file_size
    free = shutil.disk_usage(tempfile.gettempdir()).free
    # A member gives at most the size that it announces, so this also stops what would unpack without end.
    if size > free:
        raise TorchwheelError(_no_space(archive, name, size, f"has {free:,} left"))
    try:
        with tempfile.TemporaryFile() as stream:
            for chunk in archive.chunks(name):
                stream.write(chunk)
            yield stream
    except OSError as error:
        raise TorchwheelError(_no_space(archive, name, size, f"says: {error.strerror}")) from None


def _no_space(archive: WheelArchive, name: str, size: int, detail: str) -> Problem:
    return Problem(
        id="no-space",
        what=f"looking into {name} takes {size:,} bytes, and {tempfile.gettempdir()} {detail}",
        remedy="make room there, or set TMPDIR to a folder with more",
        origin=str(archive.path),
    )
