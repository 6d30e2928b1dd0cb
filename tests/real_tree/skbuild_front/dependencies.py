"""The requirements: those of the 2.6.0 tree's setup.py, and PYTORCH_EXTRA_INSTALL_REQUIREMENTS, divided by ``|``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

REQUIREMENTS = (
    "filelock",
    "typing-extensions>=4.10.0",
    'setuptools; python_version >= "3.12"',
    'sympy==1.13.1; python_version >= "3.9"',
    "networkx",
    "jinja2",
    "fsspec",
)


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    extra = os.environ.get("PYTORCH_EXTRA_INSTALL_REQUIREMENTS", "")
    return {"dependencies": [*REQUIREMENTS, *filter(None, extra.split("|"))]}
