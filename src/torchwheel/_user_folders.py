"""The user's own folders for torchwheel: its cache, and its configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal


def user_folder(kind: Literal["cache", "config"]) -> Path:
    """The folder of a kind, where the platform keeps such things; it need not exist."""
    if sys.platform == "linux":
        # platformdirs says the same, and takes 8 ms to import.
        # https://specifications.freedesktop.org/basedir-spec/latest/
        base = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
        return Path(base if base.startswith("/") else Path.home() / f".{kind}", "torchwheel")
    from platformdirs import PlatformDirs

    folders = PlatformDirs("torchwheel", appauthor=False)
    return folders.user_cache_path if kind == "cache" else folders.user_config_path
