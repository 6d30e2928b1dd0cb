"""Toolkits on machines that cannot be looked into."""

from __future__ import annotations

import pytest

from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.read import assumed_toolkit


def test_windows() -> None:
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


def test_linux_on_arm() -> None:
    assert assumed_toolkit("13.0.88", "linux_aarch64") == Toolkit(
        root="/usr/local/cuda-13.0",
        version="13.0",
        full_version="13.0.88",
        nvcc="/usr/local/cuda-13.0/bin/nvcc",
        include_dirs=("/usr/local/cuda-13.0/include",),
        library_dir="/usr/local/cuda-13.0/lib64",
        origin="assumed",
        identity="13.0.88:assumed",
    )


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
def test_version_from_the_folder(root: str, platform: str, expected: str | None) -> None:
    toolkit = assumed_toolkit(None, platform, root)
    assert (toolkit.version if toolkit else None) == expected


def test_neither_version_nor_folder() -> None:
    assert assumed_toolkit(None, "win_amd64") is None
