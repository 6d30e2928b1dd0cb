"""torchwheel: build PyTorch, and kernels for it, for the hardware that is at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchwheel.extension.setuptools_door import BuildExtension, CppExtension, CUDAExtension

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """What setup.py needs is imported when it is asked for: everything else does without setuptools."""
    if name in ("BuildExtension", "CUDAExtension", "CppExtension"):
        from torchwheel.extension import setuptools_door

        return getattr(setuptools_door, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
