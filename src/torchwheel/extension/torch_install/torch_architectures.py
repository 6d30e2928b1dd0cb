"""The GPU architectures that an installed PyTorch was built for, from its own device code.

They are what an extension is built for where no others are named. Some kernels are there for one architecture
only, such as those that need features of ``9.0a``: of PyTorch 2.14.1's 475 kernels' files four have images for it.
So an architecture counts that at least half as many images were made for as for the one with the most.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchwheel.errors import TorchwheelError
from torchwheel.extension.torch_install.installed_torch import InstalledTorch
from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.wheel.fatbinary import ImageKind, combine, images

_MANIFEST_LIMIT = 1 << 24

# The library of CUDA kernels, and the two that BUILD_SPLIT_CUDA made of it in releases before 2.6.
_LIBRARY_FILES = tuple(
    file
    for name in ("torch_cuda", "torch_cuda_cu", "torch_cuda_cpp")
    for file in (f"lib{name}.so", f"{name}.dll")
)

_CODE_KINDS = ("sass", "ptx")


def torch_architectures(torch: InstalledTorch) -> ArchitectureList | None:
    """The architectures of all kernels of a PyTorch; None for a build without CUDA, or without device code.

    The build manifest that torchwheel adds to wheels is read first, then the fat binaries in the libraries.
    ROCm's device code is not read.

    Raises:
        TorchwheelError: a library is damaged.
    """
    if torch.cuda is None:
        return None
    found = _manifest_images(torch.distribution / "torchwheel.json") if torch.distribution else []
    if not found:
        libraries = (folder / name for folder in torch.library_dirs for name in _LIBRARY_FILES)
        found = [
            (CodeTarget(one.architecture, one.kind is ImageKind.SASS, one.kind is ImageKind.PTX), one.count)
            for one in combine(
                image for library in libraries if library.is_file() for image in images(library)
            )
            if one.runs
        ]
    if not found:
        return None
    most = max(count for _, count in found)
    return ArchitectureList.of(target for target, count in found if 2 * count >= most)


def _manifest_images(path: Path) -> list[tuple[CodeTarget, int]]:
    """What the manifest says of the library of CUDA kernels; nothing if it is missing or malformed."""
    try:
        with path.open("rb") as stream:
            document: Any = json.loads(stream.read(_MANIFEST_LIMIT))
        return [
            target
            for library in document["machine_code"]
            if library["library"].rpartition("/")[2] in _LIBRARY_FILES
            for image in library["images"]
            for target in _stated_target(image)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _stated_target(image: Mapping[str, Any]) -> list[tuple[CodeTarget, int]]:
    """The target of one entry, as `CodeImage` writes it; nothing for code that a driver cannot load by itself."""
    if image["kind"] not in _CODE_KINDS or image["relocatable"]:
        return []
    try:
        (target,) = parse_architectures(image["label"]).targets
    except TorchwheelError as error:
        raise ValueError(str(error)) from None
    return [(target, int(image["count"]))]
