"""Reading a toolkit's folder in every layout it comes in."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import pytest

from put import put
from refusals import error_of
from toolkit.trees import header, linux_installation, small
from torchwheel.toolkit.cuda_toolkit import (
    Toolkit,
    assumed_toolkit,
    assumed_toolkit_at,
    in_range,
    read_toolkit,
    toolkit_at,
    toolkit_packages,
)
from torchwheel.versions import read_range

NATIVE_TARGET = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}.get(platform.machine())
needs_target = pytest.mark.skipif(
    NATIVE_TARGET is None or os.name != "posix", reason="targets/ has no folder of this machine"
)


@needs_target
def test_the_runfile_installation(tmp_path: Path) -> None:
    root = linux_installation(tmp_path / "cuda-12.9")
    toolkit = toolkit_at(root, "-C cuda-path")
    status = (root / "bin/nvcc").stat()
    assert (toolkit.root, toolkit.version, toolkit.full_version) == (str(root), "12.9", "12.9.86")
    assert toolkit.patch_release == "12.9.1"
    assert toolkit.nvcc == str(root / "bin/nvcc")
    assert toolkit.bin_dir == str(root / "bin")
    assert toolkit.include_dirs == (str(root / "include"),)
    assert toolkit.library_dir == str(root / "lib64")
    assert toolkit.origin == "-C cuda-path"
    assert toolkit.identity == f"12.9.86:{status.st_size}:{status.st_mtime_ns}"


@needs_target
def test_a_conda_environment(tmp_path: Path) -> None:
    target = tmp_path / "targets" / str(NATIVE_TARGET)
    put(target / "include/cuda.h", header(12060))
    put(target / "lib/libcudart.so")
    put(tmp_path / "include/python3.11/Python.h")
    put(tmp_path / "lib/libpython3.11.so")
    put(tmp_path / "bin/nvcc")
    toolkit = toolkit_at(tmp_path)
    assert (toolkit.version, toolkit.full_version, toolkit.patch_release) == ("12.6", "12.6", None)
    assert toolkit.include_dirs == (str(target / "include"),)
    assert toolkit.library_dir == str(target / "lib")


def test_packages_from_pypi(tmp_path: Path) -> None:
    root = tmp_path / "site-packages/nvidia/cu13"
    put(root / "bin/nvcc")
    put(root / "include/cuda_runtime.h")
    put(root / "lib/libcudart.so.13")
    put(tmp_path / "site-packages/nvidia_cuda_nvcc-13.0.88.dist-info/METADATA")
    toolkit = toolkit_at(root)
    assert (toolkit.version, toolkit.full_version) == ("13.0", "13.0.88")
    assert toolkit.include_dirs == (str(root / "include"),)
    assert toolkit.library_dir == str(root / "lib")


def test_runtime_packages_alone_have_no_compiler(tmp_path: Path) -> None:
    root = tmp_path / "site-packages/nvidia/cu13"
    put(root / "include/cuda.h", header(13000))
    toolkit = toolkit_at(root)
    assert (toolkit.version, toolkit.nvcc, toolkit.library_dir) == ("13.0", None, None)
    assert toolkit.identity == "13.0:no nvcc"
    assert toolkit.bin_dir == str(root / "bin")


def test_debian(tmp_path: Path) -> None:
    usr = tmp_path / "usr"
    put(usr / "bin/nvcc", "#!/bin/sh\n")
    put(usr / "include/cuda.h", header(12040))
    put(usr / "lib/x86_64-linux-gnu/libcudart.so.12")
    toolkit = toolkit_at(usr)
    assert (toolkit.version, toolkit.library_dir) == ("12.4", str(usr / "lib/x86_64-linux-gnu"))


def test_windows(tmp_path: Path) -> None:
    root = tmp_path / "NVIDIA GPU Computing Toolkit/CUDA/v12.9"
    put(root / "bin/nvcc.exe")
    put(root / "include/cuda.h", header(12090).replace("\n", "\r\n"))
    put(root / "lib/x64/cudart.lib")
    toolkit = toolkit_at(root)
    assert (toolkit.version, toolkit.nvcc) == ("12.9", str(root / "bin/nvcc.exe"))
    assert toolkit.library_dir == str(root / "lib/x64")


@pytest.mark.parametrize("text", ["{", "[]", '{"cuda": 3}', '{"cuda_nvcc": {"version": "new"}}', ""])
def test_a_broken_version_json_falls_back_to_the_header(tmp_path: Path, text: str) -> None:
    small(tmp_path, 12080)
    put(tmp_path / "version.json", text)
    assert toolkit_at(tmp_path).version == "12.8"


def test_identity_changes_with_the_compiler(tmp_path: Path) -> None:
    root = small(tmp_path)
    before = toolkit_at(root)
    put(root / "bin/nvcc", "another compiler")
    after = toolkit_at(root)
    assert before.identity != after.identity
    assert toolkit_at(root).identity == after.identity


def test_a_header_without_a_version(tmp_path: Path) -> None:
    put(tmp_path / "bin/nvcc")
    put(tmp_path / "include/cuda.h", "// #define CUDA_VERSION\n")
    assert read_toolkit(tmp_path, "") is None


@pytest.mark.parametrize("part", ["bin", "bin/nvcc", "empty"])
def test_no_toolkit(tmp_path: Path, part: str) -> None:
    root = small(tmp_path / "cuda")
    (root / "empty").mkdir()
    (problem,) = error_of(toolkit_at, root / part, "-C cuda-path").problems
    assert (problem.id, problem.origin) == ("not-a-toolkit", "-C cuda-path")


@pytest.mark.parametrize(
    ("version", "patch_release"),
    # Up to 11.6 NVIDIA wrote a date in its place.
    [("12.9.1", "12.9.1"), ("12.9.0", "12.9.0"), ("12.9.20250515", None), ("12.9", None), ("12.8.1", None)],
)
def test_the_patch_release_is_version_json_s(tmp_path: Path, version: str, patch_release: str | None) -> None:
    put(
        tmp_path / "version.json",
        json.dumps({"cuda": {"version": version}, "cuda_nvcc": {"version": "12.9.86"}}),
    )
    assert toolkit_at(tmp_path).patch_release == patch_release


@pytest.mark.parametrize(
    ("document", "packages"),
    [
        (
            {
                "cuda_nvcc": {"version": "13.0.88"},
                "packages": {"nvidia-nvvm": "13.0.88", "nvidia-cublas": "13.1.0.3"},
            },
            [
                ("cuda-toolkit", "13.0", False),
                ("nvidia-cublas", "13.1.0.3", True),
                ("nvidia-nvvm", "13.0.88", True),
            ],
        ),
        (
            {
                "cuda": {"version": "13.0.2"},
                "cuda_nvcc": {"name": "CUDA NVCC", "version": "13.0.88"},
                "nvidia_fs": 1,
            },
            [("cuda-toolkit", "13.0.2", False), ("cuda_nvcc", "13.0.88", False)],
        ),
    ],
)
def test_the_packages_of_a_toolkit(tmp_path: Path, document: object, packages: list[object]) -> None:
    put(tmp_path / "version.json", json.dumps(document))
    assert list(toolkit_packages(toolkit_at(tmp_path))) == packages


# --- on machines that cannot be looked into


def test_assumed_on_windows() -> None:
    root = "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.9"
    assert assumed_toolkit("12.9", "win_amd64") == Toolkit(
        root=root,
        version="12.9",
        full_version="12.9",
        nvcc=f"{root}\\bin\\nvcc.exe",
        include_dirs=(f"{root}\\include",),
        library_dir=f"{root}\\lib\\x64",
        origin="assumed",
        identity="12.9:assumed",
    )
    assert assumed_toolkit("12.9", "win_amd64").bin_dir == f"{root}\\bin"
    assert assumed_toolkit("13.4", "win_arm64").library_dir == f"{root[:-4]}13.4\\lib\\arm64"


@pytest.mark.parametrize(
    ("root", "platform", "expected"),
    [
        ("D:\\CUDA\\v12.8", "win_amd64", "12.8"),
        ("D:\\CUDA\\v12.8\\", "win_amd64", "12.8"),
        ("/opt/cuda-12.10", "linux_x86_64", "12.10"),
        ("/opt/nvidia/13.0.2", "linux_x86_64", "13.0"),
        ("/opt/hpc_sdk/24.5/cuda", "linux_x86_64", None),
        ("/usr/local/cuda", "linux_x86_64", None),
    ],
)
def test_assumed_version_from_the_folder(root: str, platform: str, expected: str | None) -> None:
    toolkit = assumed_toolkit_at(root, platform)
    assert (toolkit.version if toolkit else None) == expected


@pytest.mark.parametrize(
    ("allowed", "release", "patch_release", "expected"),
    [
        # Named to the minor version: every patch release is in, or none.
        ("==12.9.*", "12.9", None, True),
        ("==12.9", "12.9", "12.9.1", True),
        ("<=12.9", "12.9", "12.9.1", True),
        (">12.8", "12.8", "12.8.1", False),
        ("~=12.8", "12.9", "12.9.1", True),
        (">=12.8,<13", "13.0", None, False),
        # Named to the patch release: that decides.
        ("==12.9.1", "12.9", "12.9.1", True),
        ("==12.9.1", "12.9", "12.9.0", False),
        ("==12.9.1.*", "12.9", "12.9.1", True),
        (">=12.8.1", "12.8", "12.8.1", True),
        (">=12.8.1", "12.8", "12.8.0", False),
        (">=12.8.1,<12.9", "12.9", "12.9.1", False),
        # Where it is not known, what every patch release has in common decides.
        ("==12.9.1", "12.9", None, None),
        (">=12.8.1", "12.8", None, None),
        (">=12.8.1", "12.9", None, True),
        (">=12.8.1", "12.6", None, False),
        ("!=12.9.0", "12.9", None, None),
        ("==12.9.1,<12.9", "12.9", None, False),
    ],
)
def test_a_range_is_compared_as_exactly_as_it_is_written(
    allowed: str, release: str, patch_release: str | None, expected: bool | None
) -> None:
    assert in_range(release, patch_release, read_range(allowed)) is expected


def test_without_a_range_every_toolkit_is_in_it() -> None:
    assert in_range("12.9", None, None) is True
