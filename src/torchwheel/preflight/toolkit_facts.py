"""What the files of an installed CUDA toolkit tell, without running anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.toolkit.host_compiler import (
    HostCompilerLimits,
    header_conflict,
    header_limits,
    read_header,
)
from torchwheel.toolkit.model import Toolkit

_FILE = Path(__file__).with_name("toolkit_parts.toml")
_CUDA_VERSION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+CUDA_VERSION\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class ToolkitFacts:
    """An installed toolkit.

    Attributes:
        header_version: what cuda.h says, ``"12.9"``.
        nvcc_version: what ``nvcc --version`` says, ``"12.9.86"``; None if it was not asked or did not answer.
        missing: names of the parts of ``toolkit_parts.toml`` that are not there.
        limits: the host compilers that it accepts.
        glibc_conflict: the first glibc that its headers contradict; empty for none, None if nobody looked.
    """

    toolkit: Toolkit
    header_version: str | None = None
    nvcc_version: str | None = None
    missing: tuple[str, ...] = ()
    limits: HostCompilerLimits | None = None
    glibc_conflict: str | None = None


@dataclass(frozen=True)
class Part:
    """A part of a CUDA toolkit that a build may need.

    Attributes:
        name: NVIDIA's name for it.
        header: the header that it must have, relative to an include folder; empty for none.
        library: the library to link with, without prefix and suffix; empty for none.
        mentioned: a tree whose CMake files use one of these identifiers needs the part; empty: every tree.
    """

    name: str
    header: str
    library: str
    mentioned: tuple[str, ...]

    def files(self, system: str) -> str:
        """What to look for on a system (``Linux``): the header and the library, as far as it has them."""
        library = f"{self.library}.lib" if system == "Windows" else f"lib{self.library}.so"
        return ", ".join(filter(None, (self.header, self.library and library)))


@cache
def toolkit_parts() -> tuple[Part, ...]:
    return tuple(
        Part(row["name"], row.get("header", ""), row.get("library", ""), tuple(row.get("mentioned", ())))
        for row in read_toml(_FILE)["part"]
    )


def read_toolkit_facts(toolkit: Toolkit, nvcc_version: str | None) -> ToolkitFacts:
    """Read a toolkit, whose nvcc said ``nvcc_version``."""
    match = _CUDA_VERSION.search(read_header(toolkit, "cuda.h"))
    return ToolkitFacts(
        toolkit=toolkit,
        header_version=f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else None,
        nvcc_version=nvcc_version,
        missing=tuple(part.name for part in toolkit_parts() if not _is_there(part, toolkit)),
        limits=header_limits(toolkit),
        glibc_conflict=header_conflict(toolkit),
    )


def _is_there(part: Part, toolkit: Toolkit) -> bool:
    header = not part.header or any((Path(folder) / part.header).is_file() for folder in toolkit.include_dirs)
    return header and (not part.library or _has_library(part.library, toolkit))


def _has_library(name: str, toolkit: Toolkit) -> bool:
    if toolkit.library_dir is None:
        return False
    # NVIDIA's installers keep cupti apart from the other libraries.
    extras = (Path(toolkit.root) / "extras" / "CUPTI" / folder for folder in ("lib64", "lib"))
    names = (f"lib{name}.so", f"lib{name}_static.a", f"{name}.lib")
    return any((place / file).is_file() for place in (Path(toolkit.library_dir), *extras) for file in names)
