"""What the builds of a session share, and the list of versions at its end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from places import REPOSITORY
from releases.installing import Index, find_uv


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """The package index of this machine, with torchwheel's own wheel beside it."""
    folder = tmp_path_factory.mktemp("own")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, REPOSITORY]
    subprocess.run(build, check=True, capture_output=True)
    index = Index(folder, find_uv())
    if not index.answers():
        pytest.skip("no package index answers")
    yield index
    index.record()


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """torchwheel's cache folder, which the builds share: one download of each toolkit."""
    return tmp_path_factory.mktemp("cache")
