"""torchwheel: build PyTorch, and kernels for it, for the hardware that is at hand."""

from __future__ import annotations

# Nothing else is imported here: an interruption (Ctrl-C) is handled only after this file.
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from torchwheel._version import __version__
    from torchwheel.extension.cpp_extension_compat import load, load_inline
    from torchwheel.extension.setuptools_ext import BuildExtension, CppExtension, CUDAExtension
    from torchwheel.torch_install.guard import require_torch

__all__ = [
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "__version__",
    "load",
    "load_inline",
    "require_torch",
]

_OF_SETUPTOOLS_EXT = frozenset({"BuildExtension", "CUDAExtension", "CppExtension"})


class _Package(type(sys)):  # type: ignore[misc]
    """This package: a project may assign to it as to ``torch.utils.cpp_extension``."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        # Not while this package's own modules are imported, nor before a name was asked for.
        if not name.startswith("__") and not isinstance(value, type(sys)):
            from torchwheel.extension import cpp_extension_compat  # finds PyTorch

            cpp_extension_compat.assign_name(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Import the names for setup.py on first use.

    The hooks and commands of trees do not need setuptools. Every setuptools build with torchwheel installed imports
    this file.
    """
    if name == "__version__":
        from torchwheel._version import __version__  # so that this file imports nothing of torchwheel

        return __version__
    if name in _OF_SETUPTOOLS_EXT:
        from torchwheel.extension import setuptools_ext  # needs setuptools, which trees need not have

        setuptools_ext.show_target()
        return getattr(setuptools_ext, name)
    if name == "require_torch":
        from torchwheel.torch_install import guard  # packages call it whenever they are imported

        return guard.require_torch
    if name.startswith("__") or _is_module(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torchwheel.extension import cpp_extension_compat  # finds PyTorch and a CUDA toolkit

    if name in ("load", "load_inline"):
        return getattr(cpp_extension_compat, name)
    return cpp_extension_compat.lookup_name(name)


def _is_module(name: str) -> bool:
    """Whether an import looks for a module of that name in this package: it asks for an attribute first."""
    from importlib.util import find_spec  # of programs

    return find_spec(f"{__name__}.{name}") is not None
