"""torchwheel's own sdist and wheel: complete, valid, and the wheel builds from the sdist."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from answered import answered
from places import REPOSITORY

DATA = (".cmake", ".toml", ".json", ".md", ".typed", ".bat", ".html")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


def test_twine_accepts_both(dist: Path) -> None:
    files = sorted(str(path) for path in dist.iterdir())
    assert [Path(file).name for file in files] == [
        "torchwheel-0.1.0-py3-none-any.whl",
        "torchwheel-0.1.0.tar.gz",
    ]
    checked = answered([sys.executable, "-m", "twine", "check", "--strict", *files])
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_wheel_holds_every_module_and_every_piece_of_data(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = REPOSITORY / "src" / "torchwheel"
    expected = {
        f"torchwheel/{path.relative_to(source).as_posix()}"
        for path in source.rglob("*")
        if path.suffix in (".py", *DATA) or path.name == "py.typed"
    }
    expected |= {f"torchwheel/overlays/{path.name}" for path in (REPOSITORY / "overlays").glob("*.toml")}
    expected |= {f"torchwheel/shim/{path.name}" for path in (REPOSITORY / "backend").glob("*.py")}
    assert names == expected


def test_the_sdist_holds_what_the_tests_need(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {
        "src",
        "overlays",
        "backend",
        "tests",
        "examples",
        "docs",
        "benchmarks",
        "README.md",
        "LICENSE",
    } <= folders
