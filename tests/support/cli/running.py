"""What a run of the program came to."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonschema

from shipped_data import document_schema


@dataclass(frozen=True)
class Result:
    """What a run came to."""

    status: int
    out: str
    err: str

    def document(self, command: str) -> dict[str, Any]:
        """The JSON document that was printed, which must be as its schema says."""
        document: dict[str, Any] = json.loads(self.out)
        jsonschema.validate(document, document_schema(command), cls=jsonschema.Draft202012Validator)
        assert (document["schema"], document["command"]) == (1, command)
        return document


Run = Callable[..., Result]
