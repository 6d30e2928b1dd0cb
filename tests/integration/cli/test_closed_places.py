"""Folders that the user may not read: what is only looked at counts as absent, what a variable names is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from answered import answered
from backend.builds import clean_environment, without_privileges
from places import MINITORCH

pytestmark = pytest.mark.skipif(os.name == "nt", reason="closes folders as POSIX does")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "closed"
    (folder / "bin").mkdir(parents=True)
    for name in ("nvcc", "ccache", "cc"):
        (folder / "bin" / name).symlink_to("/bin/true")
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


def plan(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    words = without_privileges(sys.executable, "-m", "torchwheel", "plan", MINITORCH)
    environment = clean_environment(folder / "cache", COLUMNS="300", TORCHWHEEL_TARGET="cpu") | variables
    return answered(words, cwd=folder, env=environment, timeout=60)


def test_a_closed_folder_in_the_usual_places(closed: Path, tmp_path: Path) -> None:
    searched = {
        "PATH": f"{closed}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(closed / "lib"),
        "PYTHONPYCACHEPREFIX": str(closed),
        "XDG_CONFIG_HOME": str(closed / "config"),
        "XDG_CACHE_HOME": str(tmp_path / "xdg"),
        "CUDA_PATH_V13_0": str(closed / "cuda"),
    }
    usual, found = plan(tmp_path), plan(tmp_path, HOME=str(closed), **searched)
    assert (usual.returncode, found.returncode, found.stderr) == (0, 0, "")
    assert found.stdout == usual.stdout


@pytest.mark.parametrize(
    ("name", "place", "id"),
    [
        ("CUDA_HOME", "cuda", "not-readable"),
        ("CUDA_HOME", "", "not-readable"),
        ("TORCHWHEEL_CACHE_DIR", "cache", "build-folder-not-writable"),
        ("TORCHWHEEL_CONFIG_DIR", "config", "not-readable"),
        ("CC", "bin/cc", "no-host-compiler"),
    ],
)
def test_a_closed_folder_that_is_named(closed: Path, tmp_path: Path, name: str, place: str, id: str) -> None:
    target = {"TORCHWHEEL_TARGET": "rtx5070"} if name == "CUDA_HOME" else {}
    refused = plan(tmp_path, **target, **{name: str(closed / place)})
    said = refused.stdout + refused.stderr
    assert (refused.returncode != 0, f"[{id}]" in said, name in said) == (True, True, True), said
