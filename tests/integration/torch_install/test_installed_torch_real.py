"""What is read of a real PyTorch, compared with what it says of itself once it is imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from answered import answered
from torchwheel.hardware.arch import parse_architectures
from torchwheel.torch_install.cpp_extension import _abi_of
from torchwheel.torch_install.installed_torch import (
    InstalledTorch,
    installed_torch,
    torch_architectures,
    torch_findings,
)

pytestmark = pytest.mark.torch

_IMPORT = """
import json, sys
import torch
import torch.utils.cpp_extension as cpp_extension
print(json.dumps({
    "path": sys.path,
    "file": torch.__file__,
    "version": torch.__version__,
    "cuda": torch.version.cuda,
    "hip": torch.version.hip,
    "abi": torch._C._GLIBCXX_USE_CXX11_ABI,
    "flags": (torch._C._cuda_getArchFlags() or "") if torch.version.cuda else "",
    "pybind": [getattr(torch._C, f"_PYBIND11_{name}", None) for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")],
    "extension": open(cpp_extension.__file__).read(),
}, default=str))
"""


@pytest.fixture(params=["torch_python", "cuda_torch_python"])
def imported(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What an interpreter's PyTorch says of itself."""
    python = request.getfixturevalue(request.param)
    run = answered([python, "-I", "-c", _IMPORT], check=True, timeout=300)
    said: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return said


@pytest.fixture
def read(imported: dict[str, Any]) -> InstalledTorch:
    """The same, read from its files along that interpreter's path."""
    return installed_torch(imported["path"])


def test_version_and_build(imported: dict[str, Any], read: InstalledTorch) -> None:
    names = ("version", "cuda", "hip")
    assert {name: getattr(read, name) for name in names} == {name: imported[name] for name in names}
    assert read.root.samefile(Path(imported["file"]).parent)
    assert list(torch_findings(read)) == []


def test_cpp(imported: dict[str, Any], read: InstalledTorch) -> None:
    if "_GLIBCXX_USE_CXX11_ABI" in imported["extension"]:
        assert _abi_of(read.root)["_GLIBCXX_USE_CXX11_ABI"] is imported["abi"]


def test_architectures(imported: dict[str, Any], read: InstalledTorch) -> None:
    found = torch_architectures(read)
    assert found == (parse_architectures(imported["flags"]) if imported["flags"] else None)


def test_pybind11(imported: dict[str, Any], read: InstalledTorch) -> None:
    if "_PYBIND11_{" in imported["extension"]:
        names = ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")
        assert [_abi_of(read.root)[f"_PYBIND11_{name}"] for name in names] == imported["pybind"]
