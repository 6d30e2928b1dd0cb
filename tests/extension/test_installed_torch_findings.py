"""What is wrong with a PyTorch that can be read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from extension.torch_trees import TorchTree, install, write_metadata
from torchwheel.errors import Problem
from torchwheel.extension.torch_install.installed_torch import InstalledTorch, installed_torch
from torchwheel.extension.torch_install.torch_findings import torch_findings
from torchwheel.findings import Severity

REINSTALL = "install PyTorch again: pip install --force-reinstall --no-deps torch"
DEVELOPMENT_FILES = (
    "install the package with its development files too: on Debian and Ubuntu, apt-get install libtorch-dev"
)
FINISH = "finish the build of that source tree"


def read(site: Path) -> InstalledTorch:
    return installed_torch([str(site)])


def test_a_good_one(tmp_path: Path) -> None:
    install(tmp_path)
    assert torch_findings(read(tmp_path)) == ()


@pytest.mark.parametrize(
    ("kind", "remedy"), [("wheel", REINSTALL), ("system", DEVELOPMENT_FILES), ("tree", FINISH)]
)
def test_parts_are_missing(tmp_path: Path, kind: str, remedy: str) -> None:
    root = TorchTree().write(tmp_path / "torch")
    if kind == "tree":
        (tmp_path / "CMakeLists.txt").write_text("", encoding="utf-8")
    elif kind == "wheel":
        write_metadata(tmp_path, "2.14.1+cpu")
    shutil.rmtree(root / "include")
    for name in ("torch", "torch_cpu"):
        (root / f"lib/lib{name}.so").unlink()
    findings = torch_findings(read(tmp_path))
    assert [finding.severity for finding in findings] == [Severity.ERROR, Severity.ERROR]
    assert [finding.problem for finding in findings] == [
        Problem(
            id="torch-without-headers",
            what=f"PyTorch 2.14.1+cpu in {root} has no headers",
            remedy=remedy,
            why="extensions are compiled against them: torch/include, with c10/macros/Macros.h",
        ),
        Problem(
            id="torch-without-libraries",
            what=f"PyTorch 2.14.1+cpu in {root} lacks libraries: torch, torch_cpu",
            remedy=remedy,
            why="extensions are linked against them",
        ),
    ]


@pytest.mark.parametrize("stated", ["2.13.0", "2.14.1+cu130", "2.14.1a0", "unknown"])
def test_metadata_of_another_version(tmp_path: Path, stated: str) -> None:
    install(tmp_path, metadata=stated)
    (finding,) = torch_findings(read(tmp_path))
    assert finding.severity is Severity.WARNING
    assert finding.problem == Problem(
        id="torch-version-mismatch",
        what=f"PyTorch is 2.14.1+cpu by its version.py and {stated} by its metadata",
        remedy="install PyTorch again, so that only one is there: pip install --force-reinstall torch",
        why="files of two installations are mixed, or the wheel was changed; the extension is built for 2.14.1+cpu",
        origin=str(tmp_path / f"torch-{stated}.dist-info"),
    )


@pytest.mark.parametrize(
    ("version", "stated"),
    [
        ("2.14.1+cu130", "2.14.1"),
        ("1.13.0a0", "1.13.0a0+gitunknown"),
        ("2.6.0a0+git2236df1", "2.6.0a0+git2236df1"),
        ("2.14.1+cu130.sm120", "2.14.1+CU130-sm120"),
    ],
)
def test_metadata_of_the_same_version(tmp_path: Path, version: str, stated: str) -> None:
    TorchTree(version=version).write(tmp_path / "torch")
    write_metadata(tmp_path, "x").joinpath("METADATA").write_text(
        f"Name: torch\nVersion: {stated}\n", encoding="utf-8"
    )
    assert torch_findings(read(tmp_path)) == ()
