"""What a run of the program came to."""

from __future__ import annotations

import json
import re
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

    @property
    def refusal(self) -> tuple[int, str, list[str]]:
        """The status, what standard output has all the same, and the ids of the errors."""
        return self.status, self.out, re.findall(r"\[([a-z0-9-]+)\]$", self.err, re.MULTILINE)

    def document(self, command: str) -> dict[str, Any]:
        """The JSON document that was printed, which must be as its schema says."""
        document: dict[str, Any] = json.loads(self.out)
        jsonschema.validate(document, document_schema(command), cls=jsonschema.Draft202012Validator)
        assert (document["schema"], document["command"]) == (1, command)
        return document


Run = Callable[..., Result]
