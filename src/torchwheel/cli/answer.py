"""The answer of a command: a document for programs, and a text for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

from torchwheel.hardware.architecture import Architecture


@dataclass(frozen=True)
class Answer:
    """What a command found; ``--json`` prints the document, and otherwise the text is made and printed.

    Attributes:
        text: returns nothing where all is printed already.
    """

    document: Mapping[str, Any]
    text: Callable[[], str]
    status: int = 0


def fields_of(one: object, *names: str) -> dict[str, Any]:
    """Return attributes of an object as JSON data."""
    return {name: _to_data(getattr(one, name)) for name in names}


def _to_data(value: Any) -> Any:
    if hasattr(value, "document"):
        return value.document()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset):
        value = sorted(value)
    if isinstance(value, (list, tuple)):
        return [_to_data(item) for item in value]
    return str(value) if isinstance(value, (PurePath, Architecture)) else value
