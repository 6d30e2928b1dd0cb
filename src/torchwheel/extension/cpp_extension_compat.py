"""All names of the installed PyTorch's ``torch.utils.cpp_extension``, with a CUDA toolkit where they need one."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from torchwheel.extension.extension_plan import ExtensionProject
from torchwheel.extension.extension_survey import extension_toolkit
from torchwheel.extension.handover import (
    CUDA_HOME,
    errors_handed_over,
    project_here,
    show_target,
    show_variable,
)
from torchwheel.extension.sources import has_cuda_source
from torchwheel.reporting.errors import Severity, TorchwheelError, stop_on_errors
from torchwheel.toolkit.assemble import assemble_toolkit
from torchwheel.torch_install.cpp_extension import cpp_extension

_OF_CUDA = frozenset({CUDA_HOME, "_find_cuda_home"})
_WITH_DEVICE = frozenset({"include_paths", "library_paths", "_join_cuda_home"})


_ASSIGNED: set[str] = set()


def lookup_name(name: str) -> Any:
    """Return the value of a name of ``torch.utils.cpp_extension``.

    Raises:
        AttributeError: there is no such name.
        SystemExit: the settings or the installed PyTorch cannot be read, or no toolkit can be had for CUDA sources; the
            reason is printed.
    """
    with errors_handed_over():
        module = cpp_extension()
    show_target()
    if name in _OF_CUDA:
        provide_toolkit(vars(module))
    try:
        value = getattr(module, name)
    except AttributeError:
        raise AttributeError(f"module 'torchwheel' has no attribute {name!r}") from None
    return _with_toolkit(value, vars(module)) if name in _WITH_DEVICE else value


def assign_name(name: str, value: Any) -> None:
    """Assign a name as a project does in ``torch.utils.cpp_extension``, whose own functions then use the value."""
    try:
        module = cpp_extension()
    except TorchwheelError:
        # It is reported where an extension is built.
        return
    if name in vars(module):
        setattr(module, name, value)
        if name == CUDA_HOME and value is not None:
            # As a user's choice.
            os.environ[CUDA_HOME] = os.fspath(value)
            _ASSIGNED.add(name)


def _with_toolkit(function: Callable[..., Any], names: dict[str, Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if "cuda" in (*args, *kwargs.values()) or function.__name__ == "_join_cuda_home":
            provide_toolkit(names, asked=True)
            if names[CUDA_HOME] is None and not names["IS_HIP_EXTENSION"]:
                # As torch.utils.cpp_extension, whose text asks for a variable.
                raise OSError(
                    "there is no CUDA toolkit for the installed PyTorch: torchwheel.CUDA_HOME is None"
                )
        return function(*args, **kwargs)

    return called


def provide_toolkit(names: dict[str, Any], *, asked: bool = False) -> None:
    """Set CUDA_HOME to the toolkit of the plan for the project's extensions; leave it where there is none.

    A project that names GPUs or has CUDA sources gets one, installed now if need be: many setup.py files describe
    extensions for the CPU where CUDA_HOME is None, and the wheel would be one for the CPU.

    Args:
        names: those of ``torch.utils.cpp_extension``, whose functions read CUDA_HOME among them.
        asked: whether setup.py itself asks for CUDA, as each CUDAExtension does.
    """
    with errors_handed_over():
        project = project_here()
        needed = project.builds_cuda and (
            asked or project.settings.arch is not None or has_cuda_source(project.folder)
        )
        home = None if project.settings.is_cpu else toolkit_root(project, needed=needed)
    if home is not None:
        show_variable(CUDA_HOME, home)
    if home is not None or not (_ASSIGNED or names["IS_HIP_EXTENSION"]):
        names[CUDA_HOME] = home


@cache
def toolkit_root(project: ExtensionProject, *, needed: bool) -> str | None:
    """Return the folder of the toolkit for a project's extensions; None for a PyTorch without CUDA.

    Args:
        needed: whether to install one, and to report what is wrong with it, instead of returning None.
    """
    choice = extension_toolkit(project, install=needed)
    if choice is not None and needed:
        stop_on_errors(choice.findings, project.settings.skip_check)
    if choice is None or not choice.there or any(f.severity is Severity.ERROR for f in choice.findings):
        return None
    if choice.site_packages is not None:
        return assemble_toolkit(choice.site_packages, project.cache).root
    return choice.toolkit.root if choice.toolkit else None
