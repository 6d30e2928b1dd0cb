"""Extensions that are compiled while a program runs: PyTorch's own ``load`` and ``load_inline``, for your hardware."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from torchwheel.extension.compile.torch_steps import set_variables
from torchwheel.extension.cpp_extension_compat import toolkit_root
from torchwheel.extension.extension_plan import ExtensionProject, Language, language_of
from torchwheel.extension.extension_survey import read_extension_project
from torchwheel.extension.handover import as_variable
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.hardware.gpu_catalogue import detect_gpus
from torchwheel.host.programs import NoAnswer
from torchwheel.host.this import with_home_and_path
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.reporting.messages import settings_written_as
from torchwheel.survey import BuildRequest
from torchwheel.system.paths import is_dir
from torchwheel.torch_install.cpp_extension import NAME
from torchwheel.torch_install.installed_torch import torch_architectures

_FOLDERS = "TORCH_EXTENSIONS_DIR"
_ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"
_NVCC = "PYTORCH_NVCC"
_PATH_FLAG = re.compile(r"(?P<option>-I|-L|-isystem |-Wl,-rpath,)(?P<path>/.*)")


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
        with set_variables(_read_variables(given)), _paths_with_blanks(module):
            if (home := os.environ.get("CUDA_HOME")) and module.CUDA_HOME is None:
                vars(module)["CUDA_HOME"] = home
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
    folder = (
        Path(os.path.commonpath([Path(one).absolute().parent for one in sources])) if sources else Path.cwd()
    )
    project = read_extension_project(BuildRequest(folder, {}, with_home_and_path(dict(os.environ))))
    builds = project.builds_folder / "modules"
    variables = {_FOLDERS: str(builds)}
    if cuda and project.torch.cuda is not None:
        if architectures := project.settings.arch or _usual_architectures(project):
            variables = {
                _FOLDERS: str(builds.joinpath(*architectures.labels)),
                _ARCHITECTURES: str(architectures),
            }
        if home := toolkit_root(project, needed=True):
            variables |= {"CUDA_HOME": home, _NVCC: shlex.quote(str(Path(home, "bin", "nvcc")))}
    own = {name: os.environ[name] for name in (_FOLDERS, _NVCC) if name in os.environ}
    return {**variables, **own}


def _usual_architectures(project: ExtensionProject) -> ArchitectureList | None:
    """None for the GPUs of this machine, which PyTorch finds; without any, PyTorch's own architectures."""
    with suppress(NoAnswer):
        if detect_gpus(project.environment):
            return None
    return torch_architectures(project.torch)


@contextmanager
def _paths_with_blanks(module: Any) -> Iterator[None]:
    """Quote folders with a blank in PyTorch's flags, which it does not do for all."""
    write = module._write_ninja_file
    module._write_ninja_file = partial(_write_quoted, write)
    try:
        yield
    finally:
        module._write_ninja_file = write


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
