"""Trees and wheels that are made once: compiling even the small tree takes seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from backend.builds import GENERATIONS, check, clean_environment, make_tree, snapshot, torchwheel, wrapper
from places import REPOSITORY
from torchwheel.host.installer import pip_settings


@dataclass(frozen=True)
class Site:
    """One generation's tree with a wrapper project around it, and the cache that their builds share.

    Attributes:
        generation: ``scikit-build-core`` or ``setup.py``.
        tree: the source tree, never to be written to.
        project: the wrapper project.
        cache: torchwheel's cache folder.
        before: the tree before anything was built.
        wheel: what ``torchwheel build`` made of the project.
    """

    generation: str
    tree: Path
    project: Path
    cache: Path
    before: dict[str, tuple[int, int]]
    wheel: Path


@pytest.fixture(scope="session", params=GENERATIONS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("ein Baum é 你好")
    tree = make_tree(request.param, folder / "py torch")
    before = snapshot(tree)
    project = wrapper(folder / "mein Projekt", tree, **{"build-env": '"current"'})
    cache = folder / "der Cache"
    check(*torchwheel("build", project, "-o", folder / "aus"), cwd=folder, env=clean_environment(cache))
    (wheel,) = (folder / "aus").glob("*.whl")
    return Site(request.param, tree, project, cache, before, wheel)


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with torchwheel's own wheel."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder), str(REPOSITORY)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def online(tmp_path_factory: pytest.TempPathFactory, wheelhouse: Path) -> dict[str, str]:
    """What front ends that isolate need: a registry, and torchwheel's own wheel beside it."""
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-d", str(tmp_path_factory.mktemp("probe"))]
    answer = subprocess.run([*pip, "filelock"], capture_output=True, encoding="utf-8", timeout=120)
    if answer.returncode != 0:
        pytest.skip(f"no package registry can be reached: {answer.stderr.strip().splitlines()[-1]}")
    # Constraints of this machine would hold for pip, and not for uv.
    own = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in pip_settings(os.environ).items()}
    inherited = {
        name: value
        for name, value in {**os.environ, **own}.items()
        if name.startswith(("PIP_", "UV_", "SSL_")) and not name.endswith("CONSTRAINT")
    }
    # A path in PIP_FIND_LINKS ends at a blank.
    places = [inherited.get("PIP_FIND_LINKS", ""), wheelhouse.as_uri()]
    return inherited | {
        "PIP_FIND_LINKS": " ".join(filter(None, places)),
        "UV_FIND_LINKS": wheelhouse.as_uri(),
        "UV_CACHE_DIR": str(tmp_path_factory.mktemp("uv")),
    }
