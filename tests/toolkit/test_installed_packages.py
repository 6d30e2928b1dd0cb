"""NVIDIA's packages in a folder of Python packages."""

from __future__ import annotations

from pathlib import Path

from toolkit.site_packages import ALL, VERSIONS, install, site_packages
from torchwheel.toolkit.pypi import installed_packages


def test_packages_that_share_the_folder(tmp_path: Path) -> None:
    folder = site_packages(tmp_path / "Pakete é")
    packages = installed_packages(folder)
    assert packages is not None
    assert packages.folder == folder / "nvidia" / "cu13"
    assert packages.versions.keys() == ALL
    assert packages.versions["nvidia-nvjitlink"] == "13.5.37"
    assert (packages.compiler_version, packages.release) == ("13.0.88", "13.0")


def test_without_nvcc_they_are_a_runtime_alone(tmp_path: Path) -> None:
    assert installed_packages(tmp_path) is None
    assert installed_packages(site_packages(tmp_path / "runtime", ALL - {"nvidia-cuda-nvcc"})) is None
    old = tmp_path / "old"
    install(old, "nvidia-cuda-nvcc-cu12", "12.9.86", {"nvidia/cuda_nvcc/bin/ptxas": ""})
    assert installed_packages(old) is None


def test_a_package_that_is_only_half_installed_does_not_count(tmp_path: Path) -> None:
    folder = site_packages(tmp_path)
    (folder / "nvidia_cublas-13.0.85.dist-info" / "RECORD").unlink()
    packages = installed_packages(folder)
    assert packages is not None
    assert ALL - packages.versions.keys() == {"nvidia-cublas"}


def test_the_newest_of_several_folders(tmp_path: Path) -> None:
    folder = site_packages(tmp_path)
    install(folder, "nvidia-cuda-nvcc", "14.1.5", {"nvidia/cu14/bin/nvcc": ""})
    packages = installed_packages(folder)
    assert packages is not None
    assert (packages.folder.name, packages.release) == ("cu14", "14.1")


def test_the_identity_is_the_same_everywhere_and_changes_with_any_package(tmp_path: Path) -> None:
    def identity(name: str, **versions: str) -> str:
        changed = VERSIONS | {key.replace("_", "-"): value for key, value in versions.items()}
        packages = installed_packages(site_packages(tmp_path / name, versions=changed))
        assert packages is not None
        return packages.identity

    assert identity("one") == identity("other")
    assert identity("one") != identity("third", nvidia_cublas="13.1.1.4")
    assert len(identity("one")) == 12
