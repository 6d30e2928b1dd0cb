"""Text of ninja's files, for the tests that write some."""

from __future__ import annotations

import re
from pathlib import Path


def ninja_path(path: Path) -> str:
    """A path as a build statement names it."""
    return re.sub(r"([$ :])", r"$\1", str(path))
