"""Further names of ``torch.utils.cpp_extension`` that setup.py files import besides the extension classes.

They return the folders of torchwheel's CUDA toolkit and of PyTorch's headers and libraries, without importing PyTorch.
Source: https://docs.pytorch.org/docs/stable/cpp_extension.html and torch/utils/cpp_extension.py 2.14.1, from which
projects import undocumented names, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any

from torchwheel.extension.extension_plan import Language, language_of
from torchwheel.extension.extension_survey import extension_toolkit
from torchwheel.extension.handover import errors_handed_over, project_here
from torchwheel.extension.jit import load, load_inline
from torchwheel.extension.jit_build import build_directory_of
from torchwheel.extension.project_changes import common_nvcc_flags, names_of_torch
from torchwheel.extension.sources import has_cuda_source
from torchwheel.extension.torch_install.installed_torch import torch_architectures
from torchwheel.extension.torch_install.torch_location import locate_torch
from torchwheel.host.ninja import find_ninja
from torchwheel.reporting.errors import Problem, Severity, stop_on_errors
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.pypi import assemble_toolkit

# torchwheel does not compile extensions for ROCm.
ROCM_HOME: str | None = None
HIP_HOME: str | None = None
IS_HIP_EXTENSION = False

IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform.startswith("darwin")
IS_LINUX = sys.platform.startswith("linux")
LIB_EXT = ".pyd" if IS_WINDOWS else ".so"
EXEC_EXT = ".exe" if IS_WINDOWS else ""
CLIB_PREFIX = "" if IS_WINDOWS else "lib"
CLIB_EXT = ".dll" if IS_WINDOWS else ".so"
SHARED_FLAG = "/DLL" if IS_WINDOWS else "-shared"
SUBPROCESS_DECODE_ARGS = ("oem",) if IS_WINDOWS else ()


def lookup_name(name: str) -> Any:
    """Return the value of a name of ``torch.utils.cpp_extension``.

    Raises:
        ImportError: torchwheel does not support it; the message says so.
        AttributeError: there is no such name.
        SystemExit: see :func:`cuda_home`.
    """
    if name in _COMPUTED:
        return _COMPUTED[name]()
    if name in OFFERED:
        return globals()[name]
    torch = locate_torch()
    if torch and name in names_of_torch(torch.root):
        raise ImportError(Problem.of("not-in-torchwheel", name=name).render(), name="torchwheel")
    raise AttributeError(f"module 'torchwheel' has no attribute {name!r}")


def cuda_home() -> str | None:
    """Return the root of the CUDA toolkit for extensions of the project in the current folder.

    A toolkit from installed packages is assembled, because projects run ``CUDA_HOME/bin/nvcc``.

    Returns:
        The folder; None if the installed PyTorch has no CUDA, or if no GPU is named, the project has no CUDA sources,
        and no usable toolkit is installed.

    Raises:
        SystemExit: the settings or the installed PyTorch cannot be read, or no toolkit can be had for CUDA sources;
            the reason is printed.
    """
    toolkit = _project_toolkit()
    return None if toolkit is None else toolkit.root


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return the header folders for an extension.

    Args:
        device_type: ``cpu``, or ``cuda`` to include the CUDA toolkit's.
        torch_include_dirs: whether to include PyTorch's own.

    Raises:
        OSError: ``cuda`` without a toolkit.
        SystemExit: see :func:`cuda_home`.
    """
    own = [str(folder) for folder in _torch_folders()[0]] if torch_include_dirs else []
    if device_type != "cuda":
        return own
    # GCC's #include_next fails where this one is named: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=70129
    return [*own, *(folder for folder in _needed_toolkit().cxx_include_dirs if folder != "/usr/include")]


def library_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return the library folders for an extension.

    Args:
        torch_include_dirs: whether to include PyTorch's own; the name is torch.utils.cpp_extension's.

    Raises:
        OSError: ``cuda`` without a toolkit.
        SystemExit: see :func:`cuda_home`.
    """
    own = [str(folder) for folder in _torch_folders()[1]] if torch_include_dirs else []
    library_dir = _needed_toolkit().library_dir if device_type == "cuda" else None
    return own if library_dir is None else [*own, library_dir]


def is_ninja_available() -> bool:
    """Whether there is a ninja."""
    return find_ninja(os.environ) is not None


def verify_ninja_availability() -> None:
    """Check that there is a ninja.

    Raises:
        RuntimeError: there is none.
    """
    if not is_ninja_available():
        raise RuntimeError("there is no ninja: pip install ninja")


def get_cxx_compiler() -> str:
    """Return the C++ compiler for extensions of the project in the current folder.

    Raises:
        SystemExit: see :func:`cuda_home`.
    """
    with errors_handed_over():
        compiler = project_here().host.find_compiler("cxx")
    return compiler.path if compiler else "c++"


def _get_cuda_arch_flags(cflags: Sequence[str] | None = None) -> list[str]:
    """Return nvcc's flags for the requested architectures, else for PyTorch's own; none if ``cflags`` have some.

    Raises:
        SystemExit: see :func:`cuda_home`.
    """
    # As in torch.utils.cpp_extension. The macro's value is the module's name, which may contain the text.
    if any("arch" in flag for flag in cflags or () if "TORCH_EXTENSION_NAME" not in flag):
        return []
    with errors_handed_over():
        project = project_here()
        architectures = project.settings.arch or torch_architectures(project.torch)
    return list(architectures.for_nvcc()) if architectures else []


def _is_cuda_file(path: str) -> bool:
    return language_of(path) is Language.CUDA or PurePath(path).suffix == ".cuh"


def _join_cuda_home(*paths: str) -> str:
    home = cuda_home()
    if home is None:
        raise _no_toolkit()
    return str(Path(home, *paths))


def _cudnn_home() -> str | None:
    return os.environ.get("CUDNN_HOME") or os.environ.get("CUDNN_PATH")


def _torch_path() -> str:
    with errors_handed_over():
        return str(project_here().torch.root)


_COMPUTED: dict[str, Callable[[], Any]] = {
    "CUDA_HOME": cuda_home,
    "CUDNN_HOME": _cudnn_home,
    "COMMON_NVCC_FLAGS": common_nvcc_flags,
    "TORCH_LIB_PATH": lambda: str(Path(_torch_path(), "lib")),
    "_TORCH_PATH": _torch_path,
    "_find_cuda_home": lambda: cuda_home,
    "_get_build_directory": lambda: build_directory_of,
    "load": lambda: load,
    "load_inline": lambda: load_inline,
}
OFFERED = frozenset(
    {
        *_COMPUTED, "CLIB_EXT", "CLIB_PREFIX", "EXEC_EXT", "HIP_HOME", "IS_HIP_EXTENSION", "IS_LINUX", "IS_MACOS",
        "IS_WINDOWS", "LIB_EXT", "ROCM_HOME", "SHARED_FLAG", "SUBPROCESS_DECODE_ARGS", "_get_cuda_arch_flags",
        "_is_cuda_file", "_join_cuda_home", "get_cxx_compiler", "include_paths", "is_ninja_available",
        "library_paths", "verify_ninja_availability",
    }
)  # fmt: skip
"""The names of this module that setup.py files and programs may import."""


def _torch_folders() -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    with errors_handed_over():
        torch = project_here().torch
    return torch.include_dirs, torch.library_dirs


def _needed_toolkit() -> Toolkit:
    toolkit = _project_toolkit()
    if toolkit is None:
        raise _no_toolkit()
    return toolkit


def _no_toolkit() -> OSError:
    """Return the error that torch.utils.cpp_extension raises and setup.py files catch."""
    return OSError("there is no CUDA toolkit for the installed PyTorch: torchwheel.CUDA_HOME is None")


def _project_toolkit() -> Toolkit | None:
    """Return the toolkit of the plan for the project's extensions.

    A project that names GPUs or has CUDA sources gets one, installed now if need be: many setup.py files describe
    extensions for the CPU where CUDA_HOME is None, and the wheel would be one for the CPU.
    """
    with errors_handed_over():
        project = project_here()
        settings = project.settings
        needed = project.builds_cuda and (settings.arch is not None or has_cuda_source(project.folder))
        choice = extension_toolkit(project, install=needed)
        if choice is not None and needed:
            stop_on_errors(choice.findings, settings.skip_check)
        if choice is None or not choice.there or any(f.severity is Severity.ERROR for f in choice.findings):
            return None
        if choice.site_packages is not None:
            return assemble_toolkit(choice.site_packages, project.cache)
        return choice.toolkit
