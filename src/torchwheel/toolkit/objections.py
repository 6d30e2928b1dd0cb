"""Why a CUDA toolkit cannot serve, whatever is built with it."""

from __future__ import annotations

from torchwheel.errors import Problem
from torchwheel.hardware.architecture import Architecture
from torchwheel.toolkit.catalogue import toolkits
from torchwheel.toolkit.model import Toolkit


def without_compiler(toolkit: Toolkit, origin: str) -> Problem:
    """It has libraries alone; ``origin`` is what led to it."""
    return Problem(
        id="toolkit-without-nvcc",
        what=f"the CUDA toolkit in {toolkit.root} has no compiler: there is no bin/nvcc",
        why="PyPI's and conda's runtime packages bring the libraries alone",
        remedy="install a complete CUDA toolkit and name it with -C cuda-path=",
        origin=origin,
    )


def outside_range(toolkit: Toolkit, asked: str, asked_origin: str, origin: str) -> Problem:
    """It is not of a version that was asked for, as ``asked`` and ``asked_origin`` say."""
    return Problem(
        id="toolkit-outside-range",
        what=f"the CUDA toolkit in {toolkit.root} is {toolkit.version}, but {asked} is asked for ({asked_origin})",
        remedy=f"name another toolkit with -C cuda-path=, or another range with -C cuda={toolkit.version}",
        origin=origin,
    )


def lacks_architecture(toolkit: Toolkit, architecture: Architecture, origin: str) -> Problem:
    """It makes no machine code for an architecture."""
    return Problem(
        id="toolkit-lacks-architecture",
        what=f"CUDA {toolkit.version} in {toolkit.root} cannot compile for {architecture.sm} "
        f"({architecture.dotted})",
        why=compiled_by(architecture),
        remedy=f"install such a toolkit and name it with -C cuda-path=, or leave {architecture.dotted} out of the "
        "architectures",
        origin=origin,
    )


def compiled_by(architecture: Architecture) -> str:
    """Which CUDA releases compile for an architecture, in words."""
    catalogue = toolkits()
    earliest, latest = catalogue.earliest_for(architecture), catalogue.latest_for(architecture)
    if earliest is None:
        return f"{architecture.sm} is compiled by no CUDA release from {catalogue.releases[0].version} on"
    if latest == catalogue.newest().version:
        return f"{architecture.sm} is compiled by CUDA {earliest} and later"
    return f"{architecture.sm} is compiled by CUDA {earliest} to {latest}"
