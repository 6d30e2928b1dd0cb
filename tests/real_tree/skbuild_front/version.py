"""The version: PYTORCH_BUILD_VERSION and _NUMBER, else an sdist's PKG-INFO, else version.txt and the commit."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parents[2]


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    return {"version": _version()}


def _version() -> str:
    version = os.environ.get("PYTORCH_BUILD_VERSION")
    if version:
        number = int(os.environ["PYTORCH_BUILD_NUMBER"])
        return f"{version}.post{number}" if number > 1 else version
    info = TREE / "PKG-INFO"
    if info.is_file():
        found = re.search(r"(?m)^Version: (.+)$", info.read_text(encoding="utf-8"))
        if found:
            return found[1]
    version = (TREE / "version.txt").read_text(encoding="utf-8").strip()
    if not (TREE / ".git").exists():
        return version
    command = ["git", "-C", str(TREE), "rev-parse", "--short=7", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"{version}+git{done.stdout.strip()}" if done.returncode == 0 else version
