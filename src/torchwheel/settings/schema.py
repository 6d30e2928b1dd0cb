"""The JSON schema of ``[tool.torchwheel]``, made from the model.

``torchwheel.schema.json`` beside this file is the same as text, for editors;
``python -m torchwheel.settings.schema > src/torchwheel/settings/torchwheel.schema.json`` makes it anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from torchwheel.settings.model import Key, Where, extension_keys, keys_for, table_header

SCHEMA_ID = "urn:torchwheel:tool-table"


def tool_schema(tool_name: str = "torchwheel") -> dict[str, Any]:
    """JSON schema of torchwheel's table in pyproject.toml, for validate-pyproject."""
    project = _settings(Where.PROJECT)
    target = project["target"]
    return {
        # The draft that validate-pyproject requires of its plugins.
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID,
        "title": f"tool.{tool_name}",
        "description": "Settings of torchwheel, which builds PyTorch for your own hardware.",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **project,
            "target": {
                "description": target["description"],
                "oneOf": [*target["oneOf"], {"type": "object", "additionalProperties": _target_table()}],
            },
            "default-target": {
                "description": "The same as `target`, for a file that also has target tables.",
                "oneOf": target["oneOf"],
            },
            "when": _conditions(Where.PROJECT),
            "extension": {
                "description": "The extension modules of this project, built on PyTorch.",
                "type": "array",
                "items": _extension_table(),
            },
            "adopted": _adopted(),
        },
    }


def _target_table() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **_properties(table_header()),
            **_settings(Where.TARGET),
            "when": _conditions(Where.TARGET),
        },
    }


def _extension_table() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": _properties(extension_keys()),
    }


def _conditions(where: Where) -> dict[str, Any]:
    marker = {"type": "string", "description": "The condition, a marker as of PEP 508."}
    return {
        "description": "Settings that hold under a condition.",
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["marker"],
            "properties": {"marker": marker, **_settings(where)},
        },
    }


def _adopted() -> dict[str, Any]:
    return {
        "description": "The tree's own build backend; written by `torchwheel adopt`.",
        "type": "object",
        "additionalProperties": False,
        "required": ["build-backend"],
        "properties": {
            "build-backend": {"type": "string"},
            "backend-path": {"type": "array", "items": {"type": "string"}},
        },
    }


def _settings(where: Where) -> dict[str, Any]:
    return _properties(keys_for(where))


def _properties(keys: Mapping[str, Key]) -> dict[str, Any]:
    return {name: {"description": key.documentation, **_value_schema(key)} for name, key in keys.items()}


def _value_schema(key: Key) -> dict[str, Any]:
    if not key.table:
        return key.kind.schema()
    return {"type": "object", "additionalProperties": key.kind.schema()}


def schema_text() -> str:
    """The schema as the shipped file has it."""
    return json.dumps(tool_schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
