"""The libraries that a finished module names, against those that it may name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torchwheel.errors import Problem
from torchwheel.wheel.linkage import Linkage

# Libraries of one Python alone; python3.dll is for all.
_ONE_PYTHON = re.compile(
    r"(?:libpython3\.\d+.*|python3\d+t?\.dll|libtorch_python\.so|torch_python\.dll)", re.IGNORECASE
)

# libcudart.so.13; cudart64_13.dll, and up to CUDA 11 cudart64_110.dll.
_CUDA_RUNTIME = re.compile(r"(?:libcudart\.so\.(?P<elf>\d+).*|cudart64_(?P<pe>\d\d)\d*\.dll)", re.IGNORECASE)


def library_problems(
    linkage: Linkage, *, limited_api: bool, cuda: str | None, origin: str
) -> tuple[Problem, ...]:
    """The libraries that a module must not name.

    Args:
        linkage: what the module takes from others.
        limited_api: whether it is for every Python.
        cuda: version of the CUDA toolkit that was planned, ``13.0``; None for a build without CUDA.
        origin: the module, for messages.
    """
    problems = list(_cuda_runtime(linkage.libraries, cuda, origin))
    if limited_api:
        problems += _one_python(linkage.libraries, origin)
    return tuple(problems)


def _one_python(libraries: Sequence[str], origin: str) -> Iterator[Problem]:
    found = [library for library in libraries if _ONE_PYTHON.fullmatch(library)]
    if found:
        yield Problem(
            id="linked-with-one-python",
            what=f"it is linked with {', '.join(found)}, which belongs to one version of Python",
            remedy="leave it out of the libraries and link flags; on Windows compile every source with "
            "Py_LIMITED_API defined, which chooses python3.dll",
            why="the tag abi3 says that it runs with every Python from the tag's on",
            origin=origin,
        )


def _cuda_runtime(libraries: Sequence[str], cuda: str | None, origin: str) -> Iterator[Problem]:
    planned = None if cuda is None else cuda.partition(".")[0]
    for library in libraries:
        match = _CUDA_RUNTIME.fullmatch(library)
        if match and (match["elf"] or match["pe"]) != planned:
            yield Problem(
                id="other-cuda-runtime",
                what=f"it is linked with {library}, and was planned "
                + ("without CUDA" if cuda is None else f"with CUDA {cuda}"),
                remedy="name the folder of the toolkit's own libraries first in library_dirs, or remove the other "
                "toolkit's from library_dirs, LIBRARY_PATH and LDFLAGS",
                why="CUDA's runtimes of different major versions do not work together in one process",
                origin=origin,
            )
