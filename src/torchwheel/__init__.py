"""torchwheel: build PyTorch, and kernels for it, for the hardware that is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchwheel.extension.cpp_extension_compat import (
        HIP_HOME,
        IS_HIP_EXTENSION,
        ROCM_HOME,
        include_paths,
        library_paths,
    )
    from torchwheel.extension.setuptools_ext import BuildExtension, CppExtension, CUDAExtension

    CUDA_HOME: str | None

__all__ = [
    "CUDA_HOME",
    "HIP_HOME",
    "IS_HIP_EXTENSION",
    "ROCM_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "__version__",
    "include_paths",
    "library_paths",
]
__version__ = "0.1.0"

_FROM_SETUPTOOLS_DOOR = frozenset({"BuildExtension", "CUDAExtension", "CppExtension"})
_FURTHER_NAMES = frozenset({"HIP_HOME", "IS_HIP_EXTENSION", "ROCM_HOME", "include_paths", "library_paths"})


def __getattr__(name: str) -> Any:
    """What setup.py needs is imported when it is asked for: everything else does without setuptools."""
    if name in _FROM_SETUPTOOLS_DOOR:
        from torchwheel.extension import setuptools_ext

        return getattr(setuptools_ext, name)
    if name == "CUDA_HOME" or name in _FURTHER_NAMES:
        from torchwheel.extension import cpp_extension_compat

        return (
            cpp_extension_compat.cuda_home() if name == "CUDA_HOME" else getattr(cpp_extension_compat, name)
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
