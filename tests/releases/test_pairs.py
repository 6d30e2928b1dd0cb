"""The releases of packages for each torch, which diagnose names, are those that the index says: `make newest`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import torchwheel
from torchwheel.system.toml import read_toml

pytestmark = pytest.mark.releases
TABLES = sorted((Path(torchwheel.__file__).parent / "diagnosis" / "packages").glob("*.toml"))
PAIRS = [
    (row["name"], torch, release)
    for path in TABLES
    for row in read_toml(path).get("package", ())
    for torch, release in row.get("pairs", {}).items()
    # A page of wheels of the project's own is not the index.
    if not row.get("index", "").startswith("-f ")
]
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux2014_x86_64")


@pytest.mark.parametrize(("name", "torch", "release"), PAIRS)
def test_a_release_is_for_the_torch_that_the_table_names(
    tmp_path: Path, name: str, torch: str, release: str
) -> None:
    options = ["--dry-run", "--no-deps", "--ignore-installed", "--only-binary=:all:", "--python-version=3.11"]
    places = [f"--target={tmp_path}", *(f"--platform={one}" for one in PLATFORMS), "--report=-"]
    command = [sys.executable, "-m", "pip", "install", "-q", *options, *places, f"{name}=={release}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stderr
    needs = json.loads(result.stdout)["install"][0]["metadata"].get("requires_dist", ())
    of_torch = (Requirement(one) for one in needs if Requirement(one).name == "torch")
    full = torch if torch.count(".") > 1 else f"{torch}.0"
    assert all(one.marker or one.specifier.contains(full) for one in of_torch)
