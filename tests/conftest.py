"""What holds for every test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is; pytest-timeout catches what never ends.
settings.register_profile("torchwheel", deadline=None)
settings.load_profile("torchwheel")


@pytest.fixture
def plain_path() -> Iterator[Path]:
    """An empty folder without a blank in its path, whatever TMPDIR is: for tools that take no other."""
    place = "/tmp" if os.name == "posix" else None
    with tempfile.TemporaryDirectory(prefix="torchwheel-test-", dir=place) as folder:
        yield Path(folder).resolve()
