"""The macros that make an extension's pybind11 one with PyTorch's."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.torch_trees import TorchTree, install
from torchwheel.extension.torch_install.installed_torch import installed_torch
from torchwheel.extension.torch_install.torch_pybind import pybind11_macros

# Keys as they stand in the libraries of these releases' own wheels.
GCC_9 = (
    ("PYBIND11_COMPILER_TYPE", '"_gcc"'),
    ("PYBIND11_STDLIB", '"_libstdcpp"'),
    ("PYBIND11_BUILD_ABI", '"_cxxabi1011"'),
)
CLANG = (
    ("PYBIND11_COMPILER_TYPE", '"_clang"'),
    ("PYBIND11_STDLIB", '"_libcpp"'),
    ("PYBIND11_BUILD_ABI", '"_cxxabi1002"'),
)


@pytest.mark.parametrize(
    ("version", "library_name", "key", "macros"),
    [
        ("2.6.0", "lib{}.so", b"__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__", GCC_9),
        ("2.8.0", "lib{}.dylib", b"__pybind11_internals_v4_clang_libcpp_cxxabi1002__", CLANG),
        ("2.6.0", "{}.dll", b"__pybind11_internals_v5_msvc_mscver1929__", ()),
        (
            "2.8.0",
            "lib{}.so",
            b"__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__",
            (),
        ),
        ("2.9.0", "lib{}.so", b"__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__", ()),
        ("2.8.0", "lib{}.so", b"", ()),
    ],
)
def test_by_release(
    tmp_path: Path, version: str, library_name: str, key: bytes, macros: tuple[tuple[str, str], ...]
) -> None:
    root = install(tmp_path, TorchTree(version=version))
    (root / "lib/libtorch_python.so").unlink()
    library = root / "lib" / library_name.format("torch_python")
    library.write_bytes(b"\x7fELF" + bytes(9000) + key + b"\0__pybind11_internals")
    assert pybind11_macros(installed_torch([str(tmp_path)])) == macros


@pytest.mark.parametrize("content", [b"", b"no key"])
def test_a_library_without_a_key(tmp_path: Path, content: bytes) -> None:
    root = install(tmp_path, TorchTree(version="2.6.0"))
    (root / "lib/libtorch_python.so").write_bytes(content)
    assert pybind11_macros(installed_torch([str(tmp_path)])) == ()
