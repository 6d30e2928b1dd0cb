"""What the files of an installed CUDA toolkit tell, without running anything."""

from __future__ import annotations

import re
from pathlib import Path

from torchwheel.preflight.facts import HostCompilerLimits, ToolkitFacts
from torchwheel.preflight.toolkit_parts import Part, toolkit_parts
from torchwheel.toolkit.model import Toolkit

_ENOUGH = 1 << 16
_CUDA_VERSION = re.compile(r"^\s*#\s*define\s+CUDA_VERSION\s+(\d+)", re.MULTILINE)
_GCC = re.compile(r"#if\s+__GNUC__\s*>\s*(\d+)")
_CLANG = re.compile(r"#if\s+\(__clang_major__\s*>=\s*(\d+)\)")
_MSVC = re.compile(r"#if\s+_MSC_VER\s*<\s*(\d+)\s*\|\|\s*_MSC_VER\s*>=\s*(\d+)")


def read_toolkit_facts(toolkit: Toolkit, nvcc_version: str | None) -> ToolkitFacts:
    """Read a toolkit.

    Args:
        toolkit: the toolkit.
        nvcc_version: what its nvcc answered, None if it was not asked.
    """
    return ToolkitFacts(
        toolkit=toolkit,
        header_version=_header_version(toolkit),
        nvcc_version=nvcc_version,
        missing=tuple(part.name for part in toolkit_parts() if not _is_there(part, toolkit)),
        limits=_limits(toolkit),
    )


def _header_version(toolkit: Toolkit) -> str | None:
    match = _CUDA_VERSION.search(_header(toolkit, "cuda.h"))
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}" if match else None


def _limits(toolkit: Toolkit) -> HostCompilerLimits | None:
    """The preprocessor conditions in crt/host_config.h after which nvcc stops with ``#error``."""
    text = _header(toolkit, "crt/host_config.h")
    gcc, clang, msvc = _GCC.search(text), _CLANG.search(text), _MSVC.search(text)
    if not text:
        return None
    return HostCompilerLimits(
        gcc_max=int(gcc[1]) if gcc else None,
        clang_max=int(clang[1]) - 1 if clang else None,
        # The upper bound is exclusive: 1950 stands for all of 19.4x.
        msvc_range=(int(msvc[1]), int(msvc[2]) - 1) if msvc else None,
    )


def _header(toolkit: Toolkit, name: str) -> str:
    for folder in toolkit.include_dirs:
        try:
            with (Path(folder) / name).open(encoding="utf-8", errors="replace") as file:
                return file.read(_ENOUGH)
        except OSError:
            continue
    return ""


def _is_there(part: Part, toolkit: Toolkit) -> bool:
    header = not part.header or any((Path(folder) / part.header).is_file() for folder in toolkit.include_dirs)
    return header and (not part.library or _has_library(part.library, toolkit))


def _has_library(name: str, toolkit: Toolkit) -> bool:
    if toolkit.library_dir is None:
        return False
    folder = Path(toolkit.library_dir)
    # NVIDIA's installers keep cupti apart from the other libraries.
    places = (folder, *(Path(toolkit.root) / "extras" / "CUPTI" / library for library in ("lib64", "lib")))
    names = (f"lib{name}.so", f"lib{name}_static.a", f"{name}.lib")
    return any((place / file).is_file() for place in places for file in names)
