"""The JSON schema of ``[tool.torchwheel]``: torchwheel.schema.json, which ``make docs`` generates from the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tool_schema(tool_name: str = "torchwheel") -> dict[str, Any]:
    """Return the JSON schema of torchwheel's table in pyproject.toml, for validate-pyproject."""
    schema: dict[str, Any] = json.loads(Path(__file__).with_name(f"{tool_name}.schema.json").read_bytes())
    return schema
