"""Changing single fields of METADATA and WHEEL; every other byte stays as it is.

Both are written like the headers of an e-mail: a field may go on in lines that start with white space, and in METADATA
an empty line ends the fields.
Source: https://packaging.python.org/specifications/core-metadata/
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

_EMPTY = (b"\n", b"\r\n", b"\r")


@dataclass(frozen=True)
class Field:
    """One field.

    Attributes:
        raw: its lines, byte for byte.
        name: its name in lower case; empty for a line that is no field.
        value: its value, on one line.
    """

    raw: bytes
    name: str
    value: str


@dataclass(frozen=True)
class MetadataText:
    """A file of fields.

    Attributes:
        fields: in order.
        rest: what follows the fields, with the empty line between.
    """

    fields: tuple[Field, ...]
    rest: bytes

    def __bytes__(self) -> bytes:
        return b"".join(field.raw for field in self.fields) + self.rest

    def values(self, name: str) -> tuple[str, ...]:
        """The values of all fields of a name."""
        return tuple(field.value for field in self.fields if field.name == name.lower())

    def replacing(
        self, name: str, values: Sequence[str], replaced: Collection[str] | None = None
    ) -> MetadataText:
        """The text with fields of a name replaced.

        Args:
            name: the fields' name, as new ones write it.
            values: the new fields, in the place of the first that is replaced, else after the last of that
                name, else at the end.
            replaced: the old values that go; None for all.
        """
        same = [index for index, field in enumerate(self.fields) if field.name == name.lower()]
        gone = [index for index in same if replaced is None or self.fields[index].value in replaced]
        place = gone[0] if gone else same[-1] + 1 if same else len(self.fields)
        kept = [field for index, field in enumerate(self.fields) if index not in gone]
        before = place - sum(index < place for index in gone)
        new = [self._new(name, value) for value in values]
        return MetadataText((*kept[:before], *new, *kept[before:]), self.rest)

    def _new(self, name: str, value: str) -> Field:
        ending = b"\r\n" if self.fields and self.fields[0].raw.endswith(b"\r\n") else b"\n"
        return Field(f"{name}: {value}".encode() + ending, name.lower(), value)


def parse_metadata_text(data: bytes) -> MetadataText:
    """Read METADATA or WHEEL."""
    lines = data.splitlines(keepends=True)
    end = next((index for index, line in enumerate(lines) if line in _EMPTY), len(lines))
    return MetadataText(tuple(map(_field, _folded(lines[:end]))), b"".join(lines[end:]))


def _folded(lines: Sequence[bytes]) -> Iterator[bytes]:
    """Each field with the lines in which it goes on."""
    start = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or lines[index][:1] not in (b" ", b"\t"):
            yield b"".join(lines[start:index])
            start = index


def _field(raw: bytes) -> Field:
    name, colon, value = raw.decode("utf-8", "replace").partition(":")
    return Field(raw, name.strip().lower() if colon else "", " ".join(value.split()))
