"""Where an installed PyTorch keeps its headers, libraries and CMake files.

A wheel has all of it in the package: ``torch/include``, ``torch/lib``, ``torch/share/cmake``. Distributions move
parts of it below their prefix, and leave links behind for what their packagers thought of:

* Debian: libraries and CMake files in ``/usr/lib/TRIPLET``, headers in ``/usr/include``; the links to the
  headers are in python3-torch, and dangle without libtorch-dev.
* conda-forge: libraries in ``$PREFIX/lib``, headers in ``$PREFIX/include``, CMake files in
  ``$PREFIX/share/cmake``; on Windows libraries in ``%PREFIX%\\Library\\lib``.

Sources: https://packages.debian.org/bookworm/amd64/python3-torch/filelist and
https://github.com/conda-forge/pytorch-cpu-feedstock/blob/main/recipe/build.sh
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchwheel.extension.torch_install.installed_files import names_in

# What a linker can be given; lib*.so.1 is a dependency that a wheel brings along.
_LIBRARY_FILE = re.compile(r"lib(?P<unix>.+)\.(?:so|dylib)|(?P<windows>.+)\.lib")

# What every extension module needs, by the names that linkers know.
_CORE = frozenset({"c10", "torch", "torch_cpu", "torch_python"})

# PyTorch's own among all the libraries of a prefix.
_OWN = ("c10", "torch")

# A header that every release has.
_A_HEADER = Path("c10/macros/Macros.h")
_CPP_API = "torch/csrc/api/include"

# Folders of headers that torch.utils.cpp_extension names too, up to this release.
_OLDER_FOLDERS = ("TH", "THC")
_LAST_WITH_OLDER_FOLDERS = (2, 6)

_TORCH_CONFIG = Path("cmake/Torch/TorchConfig.cmake")

# lib/python3.11/site-packages/torch and Lib\site-packages\torch.
_DEPTHS_BELOW_PREFIX = (3, 2)


@dataclass(frozen=True)
class TorchLayout:
    """The parts of an installed PyTorch.

    Attributes:
        include_dirs: folders of headers; empty where they are not installed.
        library_dirs: folders of libraries to link with.
        library_files: these libraries: the name that a linker knows -> file.
        torch_config: ``TorchConfig.cmake``; None if there is none.
    """

    include_dirs: tuple[Path, ...]
    library_dirs: tuple[Path, ...]
    library_files: dict[str, Path]
    torch_config: Path | None


def read_layout(root: Path, release: tuple[int, int]) -> TorchLayout:
    """Find the parts of the PyTorch of that release whose package is in ``root``."""
    library_dirs, files = _libraries(root)
    return TorchLayout(
        include_dirs=_include_dirs(root, release),
        library_dirs=library_dirs,
        library_files=files,
        torch_config=_torch_config(root, files.get("c10")),
    )


def nvidia_library_dirs(site_packages: Path) -> tuple[Path, ...]:
    """The folders of shared libraries of NVIDIA's packages: ``nvidia/cu13/lib``, ``nvidia/cudnn/lib``."""
    folders = sorted((site_packages / "nvidia").glob("*/lib"))
    return tuple(folder for folder in folders if any(".so" in name for name in names_in(folder)))


def _include_dirs(root: Path, release: tuple[int, int]) -> tuple[Path, ...]:
    below = (_CPP_API, *(_OLDER_FOLDERS if release <= _LAST_WITH_OLDER_FOLDERS else ()))
    for folder in (root / "include", *(prefix / "include" for prefix in _prefixes(root))):
        if (folder / _A_HEADER).is_file():
            return (folder, *(folder / name for name in below if (folder / name).is_dir()))
    return ()


def _libraries(root: Path) -> tuple[tuple[Path, ...], dict[str, Path]]:
    """The package's own folder, and after it the prefix's for what is missing there."""
    folders: list[Path] = []
    files: dict[str, Path] = {}
    candidates = [root / "lib"]
    candidates += (prefix / below for prefix in _prefixes(root) for below in ("lib", "Library/lib"))
    for folder in candidates:
        found = _library_files(folder)
        if folder != root / "lib":
            found = {name: found[name] for name in found.keys() - files.keys() if name.startswith(_OWN)}
        if found:
            folders.append(folder)
            files.update(found)
        if files.keys() >= _CORE:
            break
    return tuple(folders), files


def _library_files(folder: Path) -> dict[str, Path]:
    found = {}
    for name in names_in(folder):
        match = _LIBRARY_FILE.fullmatch(name)
        if match is not None and (folder / name).is_file():
            found[match["unix"] or match["windows"]] = folder / name
    return found


def _torch_config(root: Path, c10: Path | None) -> Path | None:
    folders = [root / "share", *(prefix / "share" for prefix in _prefixes(root))]
    if c10 is not None:
        # Debian's CMake files lie beside the libraries, to which its torch/lib has links.
        folders.append(c10.resolve().parent)
    return next((folder / _TORCH_CONFIG for folder in folders if (folder / _TORCH_CONFIG).is_file()), None)


def _prefixes(root: Path) -> Iterator[Path]:
    """The installation prefixes that the package can belong to; none for a source tree."""
    if root.parent.name in ("site-packages", "dist-packages"):
        parents = root.parents
        yield from (parents[depth] for depth in _DEPTHS_BELOW_PREFIX if depth < len(parents))
