"""Holding shipped data files against the schemas beside the tests, and printed documents against the shipped ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import torchwheel
from torchwheel.system.toml import read_toml

PACKAGE = Path(torchwheel.__file__).parent


def document_schema(command: str) -> dict[str, Any]:
    """The JSON schema of what ``torchwheel COMMAND --json`` prints, or of a diagnosis in it."""
    folder = PACKAGE / (command if command in ("plan", "diagnosis") else "cli/schemas")
    schema: dict[str, Any] = json.loads((folder / f"{command}.schema.json").read_text(encoding="utf-8"))
    return schema


def violations(data: Path, schema: Path) -> list[str]:
    """What in a TOML file its JSON schema does not allow."""
    document = json.loads(schema.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    errors = Draft202012Validator(document).iter_errors(read_toml(data))
    return [f"{data.name}: {error.json_path}: {error.message}" for error in errors]
