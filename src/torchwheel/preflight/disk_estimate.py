"""How much disk a build takes: figures from ``disk_estimate.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml


@dataclass(frozen=True)
class DiskFigures:
    """Bytes on the disk for each byte of source, and for everything else.

    Attributes:
        cxx: for each byte of C++.
        cuda: for each byte of CUDA and each architecture.
        debug: factor on both with debug information.
        reserve: bytes beside that: the staged source, temporary files.
    """

    cxx: float
    cuda: float
    debug: float
    reserve: int


@cache
def disk_figures() -> DiskFigures:
    """The shipped figures, read once."""
    data = read_toml(Path(__file__).with_name("disk_estimate.toml"))
    return DiskFigures(
        cxx=data["cxx"]["factor"],
        cuda=data["cuda"]["factor"],
        debug=data["debug"]["factor"],
        reserve=data["reserve"]["mib"] << 20,
    )


def estimate(cxx_bytes: int, cuda_bytes: int, architectures: int, *, debug: bool) -> int:
    """Bytes that a build takes on its disk.

    Args:
        cxx_bytes: size of the C and C++ sources.
        cuda_bytes: size of the CUDA sources.
        architectures: how many architectures CUDA sources are compiled for; 0 without CUDA.
        debug: whether with debug information.
    """
    figures = disk_figures()
    objects = cxx_bytes * figures.cxx + cuda_bytes * figures.cuda * architectures
    return int(objects * (figures.debug if debug else 1)) + figures.reserve
