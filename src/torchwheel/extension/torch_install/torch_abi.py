"""Which C++ an extension has to be compiled as to fit an installed PyTorch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torchwheel.extension.torch_install.installed_files import read_text
from torchwheel.extension.torch_install.torch_binary import C10Build
from torchwheel.extension.torch_install.torch_layout import TorchLayout
from torchwheel.pytorch.releases import releases

_CONFIG_LIMIT = 1 << 20
# The check stands at the top of the header.
_HEADER_LIMIT = 1 << 16

_CONFIG_ABI = re.compile(r"-D_GLIBCXX_USE_CXX11_ABI=([01])\b")
_CONFIG_STANDARD = re.compile(r"\bCXX_STANDARD[ \t]+(\d\d)\b")
_HEADER_STANDARD = re.compile(r"__cplusplus[ \t]*<[ \t]*(20\d\d)\d\dL")
_HEADER = Path("ATen/ATen.h")

# Values of __cplusplus by year; https://en.cppreference.com/w/cpp/preprocessor/replace#Predefined_macros
_STANDARD_OF_YEAR = {"2014": 14, "2017": 17, "2020": 20, "2023": 23}

# What every release from 2.0 on needs, whatever its headers check: 2.0's ask for C++14.
_LEAST_STANDARD = 17

# The first release whose wheels for Linux all have the new ABI.
# Source: https://github.com/pytorch/pytorch/releases/tag/v2.7.0
_FIRST_WITH_CXX11_ABI = (2, 7)


@dataclass(frozen=True)
class Cxx11Abi:
    """Which of libstdc++'s two ABIs is used, and what says so.

    Attributes:
        new: the value of ``_GLIBCXX_USE_CXX11_ABI``; without meaning where the C++ library is not GNU's.
        origin: what says so.
    """

    new: bool
    origin: str


def cxx11_abi(layout: TorchLayout, c10: C10Build, release: tuple[int, int]) -> Cxx11Abi:
    """The ABI of libstdc++ that a PyTorch uses.

    Releases up to 2.7 say it in ``TorchConfig.cmake``; later ones do not, and libc10's symbols do.
    """
    said = _CONFIG_ABI.search(_config(layout))
    if said is not None:
        return Cxx11Abi(said[1] == "1", str(layout.torch_config))
    if c10.cxx11_abi is not None:
        return Cxx11Abi(c10.cxx11_abi, f"the symbols of {layout.library_files['c10']}")
    return Cxx11Abi(
        release >= _FIRST_WITH_CXX11_ABI, f"the wheels of PyTorch {release[0]}.{release[1]} are built so"
    )


def cxx_standard(layout: TorchLayout, version: str) -> int:
    """The C++ standard that a PyTorch's headers need: the highest that its CMake files or headers ask for.

    Neither alone is right: up to 2.0 the headers ask for less than they need, as they do in 2.12, and older
    CMake files may be missing. Where there are no CMake files, what is known of the release counts.
    """
    stated = [int(number) for number in _CONFIG_STANDARD.findall(_config(layout))]
    if not stated:
        stated = _known_standard(version)
    if layout.include_dirs:
        header = read_text(layout.include_dirs[0] / _HEADER, _HEADER_LIMIT) or ""
        stated += [_STANDARD_OF_YEAR.get(year, 0) for year in _HEADER_STANDARD.findall(header)]
    return max(_LEAST_STANDARD, *stated)


def _config(layout: TorchLayout) -> str:
    return "" if layout.torch_config is None else read_text(layout.torch_config, _CONFIG_LIMIT) or ""


def _known_standard(version: str) -> list[int]:
    release = releases().release(version)
    known = release.compilers.cxx_standard if release and release.compilers else None
    return [] if known is None else [known]
