"""Find the headers, libraries and CMake files of an installed PyTorch, and the C++ that they require.

A wheel has them all in the package: ``torch/include``, ``torch/lib``, ``torch/share/cmake``. Distributions move
parts of it below their prefix, and leave links behind for what their packagers thought of:

* Debian: libraries and CMake files in ``/usr/lib/TRIPLET``, headers in ``/usr/include``; the links to the
  headers are in python3-torch, and dangle without libtorch-dev.
* conda-forge: libraries in ``$PREFIX/lib``, headers in ``$PREFIX/include``, CMake files in
  ``$PREFIX/share/cmake``; on Windows libraries in ``%PREFIX%\\Library\\lib``.

Sources: https://packages.debian.org/bookworm/amd64/python3-torch/filelist and
https://github.com/conda-forge/pytorch-cpu-feedstock/blob/main/recipe/build.sh
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchwheel.pytorch.releases import read_releases
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import find_below, is_dir, is_file
from torchwheel.wheel.objfile import read_sections

# Files for linkers; lib*.so.1 is a bundled dependency of a wheel.
_LIBRARY_FILE = re.compile(r"lib(?P<unix>.+)\.(?:so|dylib)|(?P<windows>.+)\.lib")

# The libraries for every extension module, by their names for linkers.
_CORE = frozenset({"c10", "torch", "torch_cpu", "torch_python"})

# Prefixes of PyTorch's own libraries among all those of an installation prefix.
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

_CONFIG_ABI = re.compile(r"-D_GLIBCXX_USE_CXX11_ABI=([01])\b")
_CONFIG_STANDARD = re.compile(r"\bCXX_STANDARD[ \t]+(\d\d)\b")
_HEADER_STANDARD = re.compile(r"__cplusplus[ \t]*<[ \t]*(20\d\d)\d\dL")
_HEADER_WITH_STANDARD = Path("ATen/ATen.h")

# Values of __cplusplus by year; https://en.cppreference.com/w/cpp/preprocessor/replace#Predefined_macros
_STANDARD_OF_YEAR = {"2014": 14, "2017": 17, "2020": 20, "2023": 23}

# The minimum for every release since 2.0, whatever its headers check: 2.0's require C++14.
_LEAST_STANDARD = 17

# The first release whose wheels for Linux all have the new ABI.
# Source: https://github.com/pytorch/pytorch/releases/tag/v2.7.0
_FIRST_WITH_CXX11_ABI = (2, 7)

# c10::Error::Error(c10::SourceLocation, std::string): the exception that all of PyTorch throws, in every release.
# Source: https://gcc.gnu.org/onlinedocs/libstdc++/manual/using_dual_abi.html
_TAKES_STRING = re.compile(rb"_ZN3c105ErrorC[12]ENS_14SourceLocationE(Ss|NSt7__cxx11)")

# libc10.so has 2 MB, in a debug build ten times that.
_SYMBOLS_LIMIT = 1 << 26

_LAST_WITH_PYBIND11_MACROS = (2, 8)
_PYTHON_LIBRARIES = ("libtorch_python.so", "libtorch_python.dylib")
_KEY_START = b"__pybind11_internals_v"
_KEY_LENGTH = 128
_KEY = re.compile(rb"__pybind11_internals_v\d+(_[a-z]+)(_lib[a-z]+)(_cxxabi\d+)__")
PYBIND11_MACROS = ("PYBIND11_COMPILER_TYPE", "PYBIND11_STDLIB", "PYBIND11_BUILD_ABI")


@dataclass(frozen=True)
class TorchFiles:
    """The parts of an installed PyTorch."""

    include_dirs: tuple[Path, ...]
    library_dirs: tuple[Path, ...]
    libraries: dict[str, Path]
    torch_config: Path | None


def torch_files(root: Path, release: tuple[int, int]) -> TorchFiles:
    """Find the parts of the PyTorch of that release with its package in ``root``."""
    library_dirs, files = _find_libraries(root)
    config = _torch_config(root, files.get("c10"))
    return TorchFiles(_include_dirs(root, release), library_dirs, files, config)


def nvidia_library_dirs(site_packages: Path) -> tuple[Path, ...]:
    """Find the folders of shared libraries of NVIDIA's packages: ``nvidia/cu13/lib``, ``nvidia/cudnn/lib``."""
    folders = find_below(site_packages / "nvidia", "*/lib")
    return tuple(folder for folder in folders if any(".so" in name for name in _names_in(folder)))


def cxx11_abi(files: TorchFiles, release: tuple[int, int]) -> bool:
    """Whether a PyTorch uses the new one of libstdc++'s two ABIs; meaningless with another C++ library.

    Releases up to 2.7 state it in ``TorchConfig.cmake``; for later ones libc10's symbols show it.
    """
    stated = _CONFIG_ABI.search(_config_text(files))
    if stated is not None:
        return stated[1] == "1"
    by_symbols = _cxx11_abi_of(files.libraries["c10"]) if "c10" in files.libraries else None
    return release >= _FIRST_WITH_CXX11_ABI if by_symbols is None else by_symbols


def cxx_standard(files: TorchFiles, version: str) -> int:
    """The C++ standard that a PyTorch's headers need: the highest that its CMake files or headers ask for.

    Neither alone is right: up to 2.0 the headers ask for less than they need, as they do in 2.12, and older
    CMake files may be missing. Where there are no CMake files, what is known of the release counts.
    """
    stated = [int(number) for number in _CONFIG_STANDARD.findall(_config_text(files))]
    release = read_releases().release(version) if not stated else None
    if release is not None and release.compilers and release.compilers.cxx_standard is not None:
        stated = [release.compilers.cxx_standard]
    if files.include_dirs:
        header = read_beginning(files.include_dirs[0] / _HEADER_WITH_STANDARD)
        stated += [_STANDARD_OF_YEAR.get(year, 0) for year in _HEADER_STANDARD.findall(header)]
    return max(_LEAST_STANDARD, *stated)


def pybind11_macros(library_dirs: Sequence[Path], release: tuple[int, int]) -> tuple[tuple[str, str], ...]:
    """The macros that make an extension's pybind11 find that of a PyTorch up to 2.8: name and value, quotes included.

    Modules share their pybind11 types only if the compilers' names for their ABI are equal letter by letter, which
    those of two GCC releases need not be. torch.utils.cpp_extension up to 2.8 therefore gives PyTorch's names to
    extensions, except on Windows; from 2.9 on pybind11 compares less. The names stand in one text in libtorch_python,
    the key under which modules find each other: ``__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__``.
    Source: pybind11 2.13, include/pybind11/detail/internals.h
    """
    if release > _LAST_WITH_PYBIND11_MACROS:
        return ()
    for library in (folder / name for folder in library_dirs for name in _PYTHON_LIBRARIES):
        key = _KEY.match(_key_text(library)) if is_file(library) else None
        if key is not None:
            values = (value.decode("ascii") for value in key.groups())
            return tuple((name, f'"{value}"') for name, value in zip(PYBIND11_MACROS, values, strict=True))
    return ()


def _key_text(library: Path) -> bytes:
    """The text that starts with the key; empty if there is none."""
    if library.stat().st_size == 0:
        return b""
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_KEY_START)
        return content[start : start + _KEY_LENGTH] if start >= 0 else b""


def _cxx11_abi_of(library: Path) -> bool | None:
    """Determine the ABI from a library's symbols; None for a file that is not ELF, or if they do not show it."""
    with library.open("rb") as stream:
        for section in read_sections(stream, str(library)):
            if section.name == ".dynstr":
                stream.seek(section.offset)
                found = _TAKES_STRING.search(stream.read(min(section.size, _SYMBOLS_LIMIT)))
                return None if found is None else found[1] != b"Ss"
    return None


def _include_dirs(root: Path, release: tuple[int, int]) -> tuple[Path, ...]:
    below = (_CPP_API, *(_OLDER_FOLDERS if release <= _LAST_WITH_OLDER_FOLDERS else ()))
    for folder in (root / "include", *(prefix / "include" for prefix in _find_prefixes(root))):
        if is_file(folder / _A_HEADER):
            return (folder, *(folder / name for name in below if is_dir(folder / name)))
    return ()


def _find_libraries(root: Path) -> tuple[tuple[Path, ...], dict[str, Path]]:
    """Find the libraries in the package's own folder, and missing ones in the prefix's."""
    folders: list[Path] = []
    files: dict[str, Path] = {}
    candidates = [root / "lib"]
    candidates += (prefix / below for prefix in _find_prefixes(root) for below in ("lib", "Library/lib"))
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
    for name in _names_in(folder):
        match = _LIBRARY_FILE.fullmatch(name)
        if match is not None and is_file(folder / name):
            found[match["unix"] or match["windows"]] = folder / name
    return found


def _torch_config(root: Path, c10: Path | None) -> Path | None:
    folders = [root / "share", *(prefix / "share" for prefix in _find_prefixes(root))]
    if c10 is not None:
        # Debian's CMake files are beside the libraries, to which its torch/lib has links.
        folders.append(c10.resolve().parent)
    return next((folder / _TORCH_CONFIG for folder in folders if is_file(folder / _TORCH_CONFIG)), None)


def _find_prefixes(root: Path) -> Iterator[Path]:
    """Yield the possible installation prefixes of the package; none for a source tree."""
    if root.parent.name in ("site-packages", "dist-packages"):
        parents = root.parents
        yield from (parents[depth] for depth in _DEPTHS_BELOW_PREFIX if depth < len(parents))


def _config_text(files: TorchFiles) -> str:
    return "" if files.torch_config is None else read_beginning(files.torch_config)


def _names_in(folder: Path) -> list[str]:
    """List the sorted names in a folder; none if it cannot be read."""
    return [child.name for child in find_below(folder, "*")]
