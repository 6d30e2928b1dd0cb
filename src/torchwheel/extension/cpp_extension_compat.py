"""The further names of ``torch.utils.cpp_extension`` that setup.py files import beside the extension classes.

They say where the CUDA toolkit is that torchwheel compiles with, and PyTorch's headers and libraries. PyTorch is not
imported for them. Source: https://docs.pytorch.org/docs/stable/cpp_extension.html
"""

from __future__ import annotations

from pathlib import Path

from torchwheel.errors import Severity, report_errors
from torchwheel.extension.handover import project_here
from torchwheel.extension.survey import extension_toolkit
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.pypi import assemble_toolkit

# torchwheel compiles no extensions for ROCm.
ROCM_HOME: str | None = None
HIP_HOME: str | None = None
IS_HIP_EXTENSION = False


def cuda_home() -> str | None:
    """The root of the CUDA toolkit that extensions of the project in the current folder are compiled with.

    A toolkit that is made of installed packages is assembled for this: projects run ``CUDA_HOME/bin/nvcc``.

    Returns:
        The folder; None where the installed PyTorch has no CUDA, or where no toolkit serves or is installed yet.

    Raises:
        SystemExit: the settings or the installed PyTorch cannot be read; the reason is printed.
    """
    toolkit = _toolkit()
    return None if toolkit is None else toolkit.root


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """The folders of headers that an extension needs.

    Args:
        device_type: ``cpu``, or ``cuda`` for the CUDA toolkit's too.
        torch_include_dirs: whether PyTorch's own are wanted.

    Raises:
        OSError: ``cuda`` where there is no toolkit.
        SystemExit: see :func:`cuda_home`.
    """
    own = [str(folder) for folder in _torch_folders()[0]] if torch_include_dirs else []
    if device_type != "cuda":
        return own
    return [*own, *(folder for folder in _needed_toolkit().include_dirs if folder != "/usr/include")]


def library_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """The folders of libraries that an extension needs.

    Args:
        torch_include_dirs: whether PyTorch's own are wanted; torch.utils.cpp_extension calls it so.

    Raises:
        OSError: ``cuda`` where there is no toolkit.
        SystemExit: see :func:`cuda_home`.
    """
    own = [str(folder) for folder in _torch_folders()[1]] if torch_include_dirs else []
    library_dir = _needed_toolkit().library_dir if device_type == "cuda" else None
    return own if library_dir is None else [*own, library_dir]


def _torch_folders() -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    with report_errors():
        torch = project_here().torch
    return torch.include_dirs, torch.library_dirs


def _needed_toolkit() -> Toolkit:
    toolkit = _toolkit()
    if toolkit is None:
        # What torch.utils.cpp_extension raises here, and setup.py files catch.
        raise OSError("there is no CUDA toolkit for the installed PyTorch: torchwheel.CUDA_HOME is None")
    return toolkit


def _toolkit() -> Toolkit | None:
    """The toolkit that the plan of the project's extensions would have; it is there when this returns."""
    with report_errors():
        project = project_here()
        choice = extension_toolkit(project)
        if choice is None or not choice.there or any(f.severity is Severity.ERROR for f in choice.findings):
            return None
        if choice.site_packages is not None:
            return assemble_toolkit(choice.site_packages, project.cache)
        return choice.toolkit
