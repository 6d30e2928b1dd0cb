"""Builds and installations of PyTorch, read from their files."""

from __future__ import annotations

import os
import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extension.planning import installed
from extension.torch_trees import (
    CUDA_LIBRARIES,
    FAMILY,
    ONLY_THIS,
    PLAIN,
    PTX,
    SASS,
    TorchTree,
    install,
    libtorch_cuda,
)
from refusals import ids_of
from torchwheel.host.this import site_packages
from torchwheel.torch_install import installed_torch as module
from torchwheel.torch_install.cpp_extension import _abi_of
from torchwheel.torch_install.installed_torch import (
    InstalledTorch,
    front_end_findings,
    installed_torch,
    torch_architectures,
    torch_findings,
)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "Bibliothèque é" / "lib/python3.11/site-packages"


def read(site: Path) -> InstalledTorch:
    return installed_torch([str(site)])


def test_a_cpu_wheel(site: Path) -> None:
    root = install(site)
    torch = read(site)
    assert torch == InstalledTorch(
        root=root,
        version="2.14.1+cpu",
        cuda=None,
        hip=None,
        has_headers=True,
        nvidia_library_dirs=(),
        identity=torch.identity,
    )
    assert torch.identity.startswith("2.14.1+cpu 5c4886908584029761b579af026dcfb627c84070 libc10.so=0 ")
    assert list(torch_findings(torch)) == []
    shutil.rmtree(root / "include")
    assert [one.id for one in torch_findings(read(site))] == ["torch-without-headers"]


def test_a_cuda_wheel(site: Path) -> None:
    install(site, TorchTree(version="2.14.1+cu130", cuda="13.0", libraries=CUDA_LIBRARIES), metadata="2.14.1")
    for file in ("cu13/lib/libcudart.so.13", "cudnn/lib/libcudnn.so.9", "cccl/lib/cmake/a"):
        (site / "nvidia" / file).parent.mkdir(parents=True, exist_ok=True)
        (site / "nvidia" / file).touch()
    torch = read(site)
    assert (torch.version, torch.cuda) == ("2.14.1+cu130", "13.0")
    assert torch.nvidia_library_dirs == (site / "nvidia/cu13/lib", site / "nvidia/cudnn/lib")


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"version": "2.14.2+cpu"}, False),
        ({"git_version": "0" * 40}, False),
        ({"libraries": CUDA_LIBRARIES}, False),
    ],
)
def test_the_identity_is_that_of_the_wheel(tmp_path: Path, change: dict[str, Any], same: bool) -> None:
    one, other = tmp_path / "1/site-packages", tmp_path / "2/site-packages"
    install(one)
    os.utime(install(other, replace(TorchTree(), **change)) / "lib/libc10.so", (1, 1))
    assert (read(one).identity == read(other).identity) is same


def test_a_tree_that_is_built_again(tmp_path: Path) -> None:
    root = TorchTree().write(tmp_path / "torch")
    (tmp_path / "CMakeLists.txt").touch()
    before = read(tmp_path).identity
    os.utime(root / "lib/libtorch_cpu.so", (1, 1))
    assert read(tmp_path).identity != before


@pytest.mark.parametrize("content", [None, "__version__ = (", "\0", "", "__version__ = 'x'"])
def test_a_version_file_that_states_nothing(site: Path, content: str | None) -> None:
    file = install(site) / "version.py"
    file.unlink()
    if content is not None:
        file.write_text(content)
    assert ids_of(read, site) == ["torch-unreadable"]


def test_nothing_of_it_is_run(site: Path, tmp_path: Path) -> None:
    root = install(site)
    for name in ("version.py", "__init__.py"):
        with (root / name).open("a") as stream:
            stream.write(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    assert read(site).version == "2.14.1+cpu"
    assert not (tmp_path / "trace").exists()


# Of PyTorch 2.14.1's own wheel, and a tenth of their number of images, rounded up.
PUBLISHED = libtorch_cuda(
    *((SASS, number, PLAIN, 48) for number in (75, 80, 86, 90, 100, 120)),
    (SASS, 89, PLAIN, 1),
    (SASS, 100, ONLY_THIS, 6),
    (SASS, 103, FAMILY, 6),
)


@pytest.mark.parametrize(
    ("cuda", "code", "architectures"),
    [
        ("13.0", PUBLISHED, "7.5;8.0;8.6;9.0;10.0;12.0"),
        (
            "13.0",
            libtorch_cuda((SASS, 90, PLAIN, 4), (SASS, 120, PLAIN, 3), (PTX, 120, PLAIN, 3)),
            "9.0;12.0+PTX",
        ),
        (
            "13.0",
            libtorch_cuda((SASS, 100, FAMILY, 4), (SASS, 90, PLAIN, 4), (SASS, 80, PLAIN, 1)),
            "9.0;10.0f",
        ),
        ("13.0", libtorch_cuda((PTX, 90, PLAIN, 2)), "compute_90"),
        ("13.0", libtorch_cuda(), "None"),
        ("13.0", b"", "None"),
        (None, PUBLISHED, "None"),
    ],
)
@pytest.mark.parametrize("name", ["libtorch_cuda.so", "torch_cuda.dll"])
def test_the_architectures_of_most_kernels(
    site: Path, name: str, cuda: str | None, code: bytes, architectures: str
) -> None:
    root = install(site, TorchTree(cuda=cuda))
    (root / "lib" / name).write_bytes(code)
    assert str(torch_architectures(read(site))) == architectures


@pytest.mark.parametrize(
    ("suffix", "key", "expected"),
    [
        (".so", b"__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__", ["_gcc", "_libstdcpp", "_cxxabi1011"]),
        (
            ".dylib",
            b"__pybind11_internals_v4_clang_libcpp_cxxabi1002__",
            ["_clang", "_libcpp", "_cxxabi1002"],
        ),
        (".so", b"__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__", [None] * 3),
        (".so", b"", [None] * 3),
    ],
)
@pytest.mark.parametrize("stated", ["0", "1", ""])
def test_the_abi_that_older_releases_pass_to_compilers(
    site: Path, suffix: str, key: bytes, expected: list[str | None], stated: str
) -> None:
    """The keys are those of these releases' own libraries."""
    config = f'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={stated}")\n'
    root = install(site, TorchTree(version="2.6.0", config=config))
    (root / "lib/libtorch_python.so").unlink()
    library = root / f"lib/libtorch_python{suffix}"
    library.write_bytes(b"\x7fELF" + bytes(9000) + key + b"\0" if key else b"")
    found = _abi_of(root)
    assert [found[f"_PYBIND11_{name}"] for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI")] == expected
    # Of a PyTorch that does not state it, the real one is asked.
    assert found.get("_GLIBCXX_USE_CXX11_ABI", "") == (stated and stated == "1")


@pytest.mark.parametrize(
    ("version", "cuda", "warned"),
    [("2.14.0+cu130", "13.0", False), ("2.13.0+cu130", "13.0", True), ("2.14.1+cu126", "12.6", True)],
)
@pytest.mark.parametrize("place", ["purelib", "VIRTUAL_ENV"])
def test_another_release_or_cuda(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, cuda: str, warned: bool, place: str
) -> None:
    packages = site_packages(tmp_path)
    install(packages, TorchTree(version=version, cuda=cuda))
    monkeypatch.setattr(module, "is_isolated", lambda: True)
    environment = {"VIRTUAL_ENV": str(tmp_path)}
    if place == "purelib":
        monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(packages))
        environment = {}
    found = list(front_end_findings(installed("2.14.1"), environment))
    assert [one.id for one in found] == (["torch-of-another-environment"] if warned else [])


def test_without_isolation_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site_packages(tmp_path), TorchTree(version="2.13.0"))
    monkeypatch.setattr(module, "is_isolated", lambda: False)
    environment = {"VIRTUAL_ENV": str(tmp_path)}
    assert list(front_end_findings(installed("2.14.1"), environment)) == []
