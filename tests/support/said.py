"""What a test expects of a message: its severity, its id, and the values that its text holds; not its sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class _Said:
    start: str
    id: str
    values: tuple[str, ...]

    def __eq__(self, text: object) -> bool:
        return (
            isinstance(text, str)
            and text.startswith(self.start)
            and f"  [{self.id}]" in text
            and all(value in text for value in self.values)
        )


def said(message: str, *values: object) -> Any:
    """Return what equals the one rendered message with ``severity: id`` or an id, and with these values in it.

    A text may hold several values, with ``…`` between them.
    """
    severity, separator, id = message.rpartition(": ")
    return _Said(
        severity + separator, id, tuple(part for value in values for part in str(value).split(" … "))
    )
