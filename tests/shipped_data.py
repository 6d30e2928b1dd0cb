"""Holding shipped data files against the schemas beside the tests."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from torchwheel._toml import read_toml


def violations(data: Path, schema: Path) -> list[str]:
    """What in a TOML file its JSON schema does not allow."""
    document = json.loads(schema.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    errors = Draft202012Validator(document).iter_errors(read_toml(data))
    return [f"{data.name}: {error.json_path}: {error.message}" for error in errors]
