"""Names of headers, and whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest

import torchwheel.extension.profile.header_names as module
from torchwheel._toml import read_toml
from torchwheel.extension.profile.header_names import header_name, is_foreign, least_part, matches

FOLDERS = ("torch/include", "torch/include/torch/csrc/api/include/", "C:\\CUDA\\v13.0\\include")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("torch/include/torch/extension.h", "torch/extension.h"),
        ("torch/include/torch/csrc/api/include/torch/all.h", "torch/all.h"),
        ("/usr/include/c++/12/vector", "vector"),
        ("/usr/include/c++/12/bits/stl_algo.h", "bits/stl_algo.h"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/vector", "vector"),
        ("/Library/SDKs/MacOSX.sdk/usr/include/c++/v1/vector", "vector"),
        ("/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/cuda_fp16.h", "cuda_fp16.h"),
        ("C:/CUDA/v13.0/include/cub/cub.cuh", "cub/cub.cuh"),
        ("/opt/odd/header.h", "/opt/odd/header.h"),
    ],
)
def test_a_header_is_named_as_an_include_spells_it(path: str, name: str) -> None:
    assert header_name(path, FOLDERS) == name


def test_patterns() -> None:
    assert matches("torch/extension.h", ("ATen/*", "torch/*"))
    assert matches("torch/all.h", ("torch/all.h",))
    assert not matches("torch/all.hpp", ("torch/all.h",))
    assert not matches("torchvision/x.h", ("torch/*",))


def test_the_projects_files_are_not_somebody_elses(tmp_path: Path) -> None:
    project, folder, other = tmp_path / "proj é", tmp_path / "build", tmp_path / "other"
    for path in (project, folder, other):
        path.mkdir()
    (folder / "source").symlink_to(project, target_is_directory=True)
    (folder / "torch").symlink_to(other, target_is_directory=True)

    def foreign(path: str, name: str, *, system: bool = False) -> bool:
        return is_foreign(path, system, name, project, folder)

    assert not foreign("source/csrc/own.h", "own.h")
    assert not foreign("unity/unity-0.cpp", "unity-0.cpp")
    assert not foreign(str(project / "own.h"), "own.h")
    assert foreign("torch/other.h", "other.h")
    assert foreign("source/.venv/include/Python.h", "Python.h", system=True)
    assert foreign("source/third_party/cutlass/include/cutlass/gemm.h", "cutlass/gemm.h")


def test_the_shipped_data() -> None:
    data = read_toml(Path(module.__file__).with_name("headers.toml"))
    assert data["libraries"]["source"].startswith("https://")
    assert all(pattern.endswith("/*") for pattern in data["libraries"]["headers"])
    assert 0 < least_part() < 1
