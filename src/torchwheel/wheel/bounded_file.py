"""A file that need not be trusted: no position and no length that it announces is believed unchecked."""

from __future__ import annotations

from typing import BinaryIO

from torchwheel._dataclass import dataclass
from torchwheel.errors import Problem, TorchwheelError


@dataclass(frozen=True)
class BoundedFile:
    """A seekable binary stream with its length known.

    Attributes:
        stream: the stream; reading changes its position.
        length: bytes in it.
        origin: the file's name, for errors.
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
        return TorchwheelError(
            Problem(
                id="damaged-library",
                what=f"this is not a complete library: {detail}",
                remedy="build or download the file again",
                origin=self.origin,
            )
        )
