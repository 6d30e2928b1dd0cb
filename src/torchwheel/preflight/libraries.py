"""Finding cuDNN and NCCL by their headers, in the places where PyTorch's CMake looks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.model import Host
from torchwheel.preflight.facts import NOT_INSTALLED, Installed
from torchwheel.toolkit.model import Toolkit

_ENOUGH = 1 << 16


@dataclass(frozen=True)
class _Library:
    """How a library says its version, and which variables name its folders."""

    header: str
    prefix: str
    numbers: tuple[str, ...]
    roots: tuple[str, ...]
    includes: tuple[str, ...]


# cmake/Modules/FindCUDNN.cmake and FindNCCL.cmake of PyTorch: https://github.com/pytorch/pytorch/tree/v2.6.0/cmake
_LIBRARIES = {
    "cudnn": _Library(
        "cudnn_version.h",
        "CUDNN",
        ("MAJOR", "MINOR", "PATCHLEVEL"),
        ("CUDNN_ROOT", "CUDNN_ROOT_DIR"),
        ("CUDNN_INCLUDE_DIR",),
    ),
    "nccl": _Library(
        "nccl.h",
        "NCCL",
        ("MAJOR", "MINOR", "PATCH"),
        ("NCCL_ROOT", "NCCL_ROOT_DIR"),
        ("NCCL_INCLUDE_DIR",),
    ),
}


def find_libraries(
    environment: Mapping[str, str], toolkits: Iterable[Toolkit], host: Host
) -> dict[str, Installed]:
    """cuDNN and NCCL by name, each installed or not."""
    found = {}
    toolkits = tuple(toolkits)
    for name, library in _LIBRARIES.items():
        folders = _folders(library, environment, toolkits, host)
        versions = (_installed(library, folder / library.header) for folder in folders)
        found[name] = next((version for version in versions if version), NOT_INSTALLED)
    return found


def _folders(
    library: _Library, environment: Mapping[str, str], toolkits: tuple[Toolkit, ...], host: Host
) -> Iterator[Path]:
    yield from (Path(environment[name]) for name in library.includes if environment.get(name))
    yield from (Path(environment[name]) / "include" for name in library.roots if environment.get(name))
    yield from (Path(folder) for toolkit in toolkits for folder in toolkit.include_dirs)
    if host.system == "Linux":
        for place in ("/usr/include", f"/usr/include/{host.machine}-linux-gnu", "/usr/local/include"):
            yield Path(place)


def _installed(library: _Library, header: Path) -> Installed | None:
    try:
        with header.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_ENOUGH)
    except OSError:
        return None
    found = [re.search(rf"#define\s+{library.prefix}_{part}\s+(\d+)", text) for part in library.numbers]
    numbers = [match[1] for match in found if match]
    return Installed(".".join(numbers), str(header)) if len(numbers) == len(found) else None
