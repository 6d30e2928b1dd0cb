"""``torchwheel toolkits``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run
from toolkit.trees import linux_installation, small
from torchwheel.toolkit.cuda_releases import read_toolkits


def test_what_is_here_and_what_it_compiles(
    torchwheel: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = linux_installation(here / "cuda-12.9")
    monkeypatch.setenv("CUDA_HOME", str(root))
    release = read_toolkits().release("12.9")
    assert release is not None
    assert torchwheel("toolkits", "--json").document("toolkits")["found"][0] == {
        "version": "12.9",
        "full_version": "12.9.86",
        "root": str(root),
        "nvcc": str(root / "bin/nvcc"),
        "origin": "CUDA_HOME",
        "architectures": [one.dotted for one in sorted(release.architectures)],
    }


def test_a_release_that_is_not_in_the_catalogue(
    torchwheel: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(small(here / "cuda", number=99010)))
    monkeypatch.setenv("COLUMNS", str(100 + len(str(here))))
    assert torchwheel("toolkits", "--json").document("toolkits")["found"][0]["architectures"] == []
    row = torchwheel("toolkits").out.splitlines()[2]
    assert row.endswith("not known: this release is not in the catalogue")


def test_all_releases_newest_first(torchwheel: Run) -> None:
    releases = torchwheel("toolkits", "--json").document("toolkits")["releases"]
    assert [one["version"] for one in releases] == [one.version for one in reversed(read_toolkits().releases)]
    assert {one["version"] for one in releases if one["pypi_nvcc"]} == {
        one.version for one in read_toolkits() if one.pypi_nvcc
    }


def test_what_pypi_offers_fits_80_columns(torchwheel: Run) -> None:
    lines = torchwheel("toolkits").out.splitlines()
    assert [line for line in lines[lines.index("On PyPI") :] if len(line) > 80] == []


def test_packages_are_taken_by_a_setting_and_not_by_hand(torchwheel: Run) -> None:
    advice = " ".join(torchwheel("toolkits").out.split("\n\n")[-1].split())
    assert "-C cuda-from=pypi" in advice
    assert "pip install" not in advice
