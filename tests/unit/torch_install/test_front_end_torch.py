"""A warning where an isolated build has another PyTorch than the environment that the front end runs in."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from extension.planning import installed
from extension.torch_trees import TorchTree, install
from torchwheel.torch_install import front_end_torch


@pytest.mark.parametrize(
    ("version", "cuda", "warned"),
    [("2.14.0+cu130", "13.0", False), ("2.13.0+cu130", "13.0", True), ("2.14.1+cu126", "12.6", True)],
)
@pytest.mark.parametrize("place", ["purelib", "VIRTUAL_ENV"])
def test_another_release_or_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, cuda: str, warned: bool, place: str
) -> None:
    packages = front_end_torch.site_packages(tmp_path)
    install(packages, TorchTree(version=version, cuda=cuda))
    monkeypatch.setattr(front_end_torch, "is_isolated", lambda: True)
    environment = {"VIRTUAL_ENV": str(tmp_path)}
    if place == "purelib":
        monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(packages))
        environment = {}
    found = list(front_end_torch.front_end_findings(installed("2.14.1"), environment))
    assert [one.id for one in found] == (["torch-of-another-environment"] if warned else [])


def test_without_isolation_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(front_end_torch.site_packages(tmp_path), TorchTree(version="2.13.0"))
    monkeypatch.setattr(front_end_torch, "is_isolated", lambda: False)
    environment = {"VIRTUAL_ENV": str(tmp_path)}
    assert list(front_end_torch.front_end_findings(installed("2.14.1"), environment)) == []
