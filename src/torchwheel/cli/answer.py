"""The answer of a command: a document for programs, and a text for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a command found; ``--json`` prints the document, and otherwise the text is made and printed.

    Attributes:
        text: returns nothing where all is printed already.
    """

    document: Mapping[str, Any]
    text: Callable[[], str]
    status: int = 0
