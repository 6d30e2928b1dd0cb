"""The pybind11 that an installed PyTorch up to 2.8 was compiled with.

Modules share their pybind11 types only if the compilers' names for their ABI are equal letter by letter, which
those of two GCC releases need not be. torch.utils.cpp_extension up to 2.8 therefore gives PyTorch's names to
extensions; from 2.9 on pybind11 compares less, and it no longer does.

The names stand in one text in libtorch_python, the key under which modules find each other:
``__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__``.
Source: pybind11 2.13, include/pybind11/detail/internals.h
"""

from __future__ import annotations

import mmap
import re
from pathlib import Path

from torchwheel.extension.torch_install.installed_torch import InstalledTorch

_LAST_RELEASE = (2, 8)
_FILES = ("libtorch_python.so", "libtorch_python.dylib")

_KEY_START = b"__pybind11_internals_v"
_KEY_LENGTH = 128
_KEY = re.compile(rb"__pybind11_internals_v\d+(_[a-z]+)(_lib[a-z]+)(_cxxabi\d+)__")
_MACROS = ("PYBIND11_COMPILER_TYPE", "PYBIND11_STDLIB", "PYBIND11_BUILD_ABI")


def pybind11_macros(torch: InstalledTorch) -> tuple[tuple[str, str], ...]:
    """The macros that make an extension's pybind11 find PyTorch's: name and value, quotes included.

    Empty for releases from 2.9 on, and on Windows, where torch.utils.cpp_extension sets none.
    """
    if torch.release > _LAST_RELEASE:
        return ()
    for library in (folder / name for folder in torch.library_dirs for name in _FILES):
        if library.is_file():
            key = _KEY.match(_key_text(library))
            if key is not None:
                values = (value.decode("ascii") for value in key.groups())
                return tuple((name, f'"{value}"') for name, value in zip(_MACROS, values, strict=True))
    return ()


def _key_text(library: Path) -> bytes:
    """What stands where the key begins; nothing if there is none."""
    if library.stat().st_size == 0:
        return b""
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_KEY_START)
        return content[start : start + _KEY_LENGTH] if start >= 0 else b""
