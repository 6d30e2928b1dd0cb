"""What compiling for a Python takes: its headers, its libraries, and what modules are called."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


@dataclass(frozen=True)
class PythonBuild:
    """A Python interpreter, as far as extension modules are concerned.

    Attributes:
        include_dirs: folders of its headers.
        library_dirs: folders of its import libraries, which only Windows needs.
        extension_suffix: ending of a module for this Python alone: ``.cpython-311-x86_64-linux-gnu.so``.
        limited_suffix: ending of a module with the limited API: ``.abi3.so``, ``.pyd`` on Windows.
    """

    include_dirs: tuple[str, ...]
    library_dirs: tuple[str, ...]
    extension_suffix: str
    limited_suffix: str


def this_python_build() -> PythonBuild:
    """The running interpreter."""

    folders = dict.fromkeys((sysconfig.get_path("include"), sysconfig.get_path("platinclude")))
    windows = sys.platform == "win32"
    limited = next((suffix for suffix in EXTENSION_SUFFIXES if "abi3" in suffix), EXTENSION_SUFFIXES[-1])
    return PythonBuild(
        include_dirs=tuple(folders),
        library_dirs=(str(Path(sys.base_prefix, "libs")),) if windows else (),
        extension_suffix=EXTENSION_SUFFIXES[0],
        limited_suffix=limited,
    )
