"""All names of the installed PyTorch's ``torch.utils.cpp_extension``, with a CUDA toolkit where they need one."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

from torchwheel.extension.compile.torch_steps import replaced, set_variables
from torchwheel.extension.extension_plan import ExtensionProject, Language, language_of
from torchwheel.extension.extension_survey import ARCH_LIST, extension_toolkit, read_extension_project
from torchwheel.extension.handover import (
    CUDA_HOME,
    as_variable,
    errors_handed_over,
    project_here,
    show_target,
    show_variable,
)
from torchwheel.extension.sources import has_cuda_source
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.hardware.gpu_catalogue import detect_gpus
from torchwheel.host.programs import NoAnswer
from torchwheel.host.this import with_home_and_path
from torchwheel.reporting.errors import Severity, TorchwheelError, stop_on_errors
from torchwheel.reporting.messages import settings_written_as
from torchwheel.survey import BuildRequest
from torchwheel.system.paths import is_dir
from torchwheel.toolkit.assemble import assemble_toolkit
from torchwheel.torch_install.cpp_extension import NAME, cpp_extension
from torchwheel.torch_install.installed_torch import torch_architectures

_OF_CUDA = frozenset({CUDA_HOME, "_find_cuda_home"})
_WITH_DEVICE = frozenset({"include_paths", "library_paths", "_join_cuda_home"})
_FOLDERS, _NVCC = "TORCH_EXTENSIONS_DIR", "PYTORCH_NVCC"
_PATH_FLAG = re.compile(r"(?P<option>-I|-L|-isystem |-Wl,-rpath,)(?P<path>/.*)")
_ASSIGNED: set[str] = set()


def lookup_name(name: str) -> Any:
    """Return the value of a name of ``torch.utils.cpp_extension``.

    Raises:
        AttributeError: there is no such name.
        SystemExit: settings or PyTorch cannot be read, or no toolkit can be had; the reason is printed.
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
    """Assign a name in ``torch.utils.cpp_extension``, whose own functions then use the value."""
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
                what = "there is no CUDA toolkit for the installed PyTorch"
                raise OSError(f"{what}: torchwheel.CUDA_HOME is None")
        return function(*args, **kwargs)

    return called


def provide_toolkit(names: dict[str, Any], *, asked: bool = False) -> None:
    """Set CUDA_HOME to the toolkit of the plan for the project's extensions; leave it where there is none.

    A project that names GPUs or has CUDA sources gets one, installed now if need be: many setup.py files describe
    extensions for the CPU where CUDA_HOME is None, and the wheel would be one for the CPU.

    Args:
        names: those of ``torch.utils.cpp_extension``.
        asked: whether setup.py itself asks for CUDA, as each CUDAExtension does.
    """
    with errors_handed_over():
        project = project_here()
        needed = project.builds_cuda and (
            asked or project.settings.arch is not None or has_cuda_source(project.folder)
        )
        home = None if project.settings.is_cpu else _toolkit_root(project, needed=needed)
    if home is not None:
        show_variable(CUDA_HOME, home)
    if home is not None or not (_ASSIGNED or names["IS_HIP_EXTENSION"]):
        names[CUDA_HOME] = home


@cache
def _toolkit_root(project: ExtensionProject, *, needed: bool) -> str | None:
    """The folder of the toolkit for a project's extensions; one that is needed is installed, and reported if wrong."""
    choice = extension_toolkit(project, install=needed)
    if choice is not None and needed:
        stop_on_errors(choice.findings, project.settings.skip_check)
    if choice is None or not choice.there or any(f.severity is Severity.ERROR for f in choice.findings):
        return None
    if choice.site_packages is not None:
        return assemble_toolkit(choice.site_packages, project.cache).root
    return choice.toolkit.root if choice.toolkit else None


def load(*args: Any, **kwargs: Any) -> Any:
    """Compile an extension if it is not up to date, and load it.

    Takes what ``torch.utils.cpp_extension.load`` takes, and calls it. CUDA sources are compiled for the hardware in
    ``TORCHWHEEL_TARGET`` or ``TORCH_CUDA_ARCH_LIST``, else for the GPUs of this machine, else for PyTorch's own
    architectures.

    Raises:
        RuntimeError: it cannot be built.
    """
    return _call("load", args, kwargs)


def load_inline(*args: Any, **kwargs: Any) -> Any:
    """Compile an extension from source texts if it is not up to date, and load it.

    Takes what ``torch.utils.cpp_extension.load_inline`` takes, and calls it; see :func:`load`.

    Raises:
        RuntimeError: it cannot be built.
    """
    return _call("load_inline", args, kwargs)


def _call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    module = importlib.import_module(NAME)
    function = getattr(module, name)
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    try:
        # PyTorch does not quote all folders with a blank.
        write = {"_write_ninja_file": partial(_write_quoted, module._write_ninja_file)}
        with set_variables(_read_variables(given)), replaced(vars(module), write):
            if (home := os.environ.get(CUDA_HOME)) and module.CUDA_HOME is None:
                vars(module)[CUDA_HOME] = home
            return function(*args, **kwargs)
    except TorchwheelError as error:
        with settings_written_as(as_variable):
            text = error.render()
        raise RuntimeError(f"the extension {given.get('name')} cannot be built: {text}") from error


def _read_variables(given: Mapping[str, Any]) -> dict[str, str]:
    """The variables by which PyTorch builds for the target, with its toolkit, in torchwheel's cache."""
    sources = given.get("sources") or ()
    sources = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    cuda = given.get("with_cuda") or given.get("cuda_sources")
    cuda = cuda or any(language_of(os.fspath(one)) is Language.CUDA for one in sources)
    folders = [Path(one).absolute().parent for one in sources]
    folder = Path(os.path.commonpath(folders)) if folders else Path.cwd()
    project = read_extension_project(BuildRequest(folder, {}, with_home_and_path(dict(os.environ))))
    builds = project.builds_folder / "modules"
    variables = {_FOLDERS: str(builds)}
    if cuda and project.torch.cuda is not None:
        if architectures := project.settings.arch or _usual_architectures(project):
            folder = builds.joinpath(*architectures.labels)
            variables = {_FOLDERS: str(folder), ARCH_LIST: str(architectures)}
        if home := _toolkit_root(project, needed=True):
            variables |= {CUDA_HOME: home, _NVCC: shlex.quote(str(Path(home, "bin", "nvcc")))}
    own = {name: os.environ[name] for name in (_FOLDERS, _NVCC) if name in os.environ}
    return {**variables, **own}


def _usual_architectures(project: ExtensionProject) -> ArchitectureList | None:
    """None for the GPUs of this machine, which PyTorch finds; without any, PyTorch's own architectures."""
    with suppress(NoAnswer):
        if detect_gpus(project.environment):
            return None
    return torch_architectures(project.torch)


def _write_quoted(write: Callable[..., None], *args: Any, **kwargs: Any) -> None:
    given = inspect.signature(write).bind(*args, **kwargs)
    for name in ("cflags", "cuda_cflags", "ldflags"):
        if flags := given.arguments.get(name):
            given.arguments[name] = [_quote_path(flag) for flag in flags]
    write(*given.args, **given.kwargs)


def _quote_path(flag: str) -> str:
    match = _PATH_FLAG.fullmatch(flag)
    if match is None or " " not in match["path"] or not is_dir(Path(match["path"])):
        return flag
    return f"{match['option']}{shlex.quote(match['path'])}"
