"""Programs that a test runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def answered(command: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program, and return what it wrote; whether it failed is the test's to judge, unless ``check`` is set."""
    return subprocess.run(command, capture_output=True, encoding="utf-8", **options)


def own_environment(**variables: str) -> dict[str, str]:
    """The variables of this process without torchwheel's and PyTorch's, and others beside them."""
    prefixes = ("TORCHWHEEL_", "TORCH_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return {**kept, **variables}
