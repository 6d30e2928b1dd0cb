"""A file that need not be trusted: no position and no length that it announces is believed unchecked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from torchwheel.errors import TorchwheelError, refusal, unreadable


@contextmanager
def opened(source: Path | BinaryIO, origin: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file's stream, with its name for errors; a stream is passed on as it is, and stays open.

    Args:
        source: a path, or a seekable binary stream.
        origin: name for errors; a path names itself.

    Raises:
        TorchwheelError: the file of a path cannot be read.
    """
    if not isinstance(source, Path):
        yield source, origin
        return
    try:
        with source.open("rb") as stream:
            yield stream, origin or str(source)
    except OSError as error:
        raise unreadable(error, origin or str(source)) from None


@dataclass(frozen=True)
class BoundedFile:
    """A seekable binary stream with its length known.

    Attributes:
        stream: the stream; reading changes its position.
        length: bytes in it.
    """

    stream: BinaryIO
    length: int
    origin: str

    @classmethod
    def of(cls, stream: BinaryIO, origin: str) -> BoundedFile:
        """The stream, measured."""
        return cls(stream, stream.seek(0, 2), origin)

    def read(self, position: int, length: int) -> bytes:
        """Exactly ``length`` bytes.

        Raises:
            TorchwheelError: the file ends before.
        """
        if position + length > self.length:
            raise self.damaged(f"it ends before byte {position + length}")
        self.stream.seek(position)
        return self.stream.read(length)

    def damaged(self, detail: str) -> TorchwheelError:
        """The error that tells what is wrong with the file."""
        return refusal(
            id="damaged-library",
            what=f"this is not a complete library: {detail}",
            remedy="build or download the file again",
            origin=self.origin,
        )
