"""The JSON schema of ``[tool.torchwheel]``, made from the model; ``make docs`` writes it to torchwheel.schema.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from torchwheel.settings.known_keys import EXTENSION_KEYS, TABLE_HEADER, Key, Where, keys_for

_Schema = dict[str, Any]

# The draft that validate-pyproject requires of its plugins.
DRAFT = "http://json-schema.org/draft-07/schema#"


def schema_text() -> str:
    """The whole file."""
    project = _property_schemas(keys_for(Where.PROJECT))
    target = project["target"]
    own = definition_schema(Where.TARGET, TABLE_HEADER)
    schema = {
        "$schema": DRAFT,
        "$id": "urn:torchwheel:tool-table",
        "title": "tool.torchwheel",
        "description": "Settings of torchwheel, which builds PyTorch for your own hardware.",
        **_object_schema(
            {
                **project,
                "target": {
                    "description": target["description"],
                    "oneOf": [*target["oneOf"], {"type": "object", "additionalProperties": own}],
                },
                "default-target": {
                    "description": "The same as `target`, for a file that also has target tables.",
                    "oneOf": target["oneOf"],
                },
                "when": _condition_schema(Where.PROJECT),
                "extension": {
                    "description": "The extension modules of this project, built on PyTorch.",
                    "type": "array",
                    "items": _object_schema(_property_schemas(EXTENSION_KEYS), ["name"]),
                },
                "adopted": _adopted_schema(),
            }
        ),
    }
    return json.dumps(schema, indent=2) + "\n"


def definition_schema(where: Where, header: Mapping[str, Key]) -> _Schema:
    """JSON schema of a definition of a target or profile: settings, and ``header``."""
    return _object_schema(
        {**_property_schemas(header), **_property_schemas(keys_for(where)), "when": _condition_schema(where)}
    )


def _condition_schema(where: Where) -> _Schema:
    marker = {"type": "string", "description": "The condition, a marker as of PEP 508."}
    return {
        "description": "Settings that hold under a condition.",
        "type": "array",
        "items": _object_schema({"marker": marker, **_property_schemas(keys_for(where))}, ["marker"]),
    }


def _adopted_schema() -> _Schema:
    backend_path = {"type": "array", "items": {"type": "string"}}
    return {
        "description": "The tree's own build backend; written by `torchwheel adopt`.",
        **_object_schema({"build-backend": {"type": "string"}, "backend-path": backend_path}),
    }


def _object_schema(properties: Mapping[str, Any], required: list[str] | None = None) -> _Schema:
    needs = {"required": required} if required else {}
    return {"type": "object", "additionalProperties": False, **needs, "properties": dict(properties)}


def _property_schemas(keys: Mapping[str, Key]) -> _Schema:
    return {name: {"description": key.documentation, **_value_schema(key)} for name, key in keys.items()}


def _value_schema(key: Key) -> _Schema:
    schema = dict(key.type.schema)
    return {"type": "object", "additionalProperties": schema} if key.table else schema


if __name__ == "__main__":
    sys.stdout.write(schema_text())
