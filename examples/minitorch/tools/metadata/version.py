"""The ``version`` field of the metadata, for scikit-build-core's dynamic-metadata."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

GENERATOR = Path(__file__).resolve().parents[1] / "generate_torch_version.py"


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, str]:
    """The same version that torch/version.py will say."""
    return {"version": runpy.run_path(str(GENERATOR))["get_torch_version"]()}
