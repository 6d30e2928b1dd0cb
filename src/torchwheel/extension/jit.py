"""Extensions that are compiled while a program runs: ``load`` and ``load_inline`` of torch.utils.cpp_extension.

They have the same arguments and flags, and use the plan, the build folder and the lock of a wheel's build
(``jit_build.py``). An earlier build is found without a plan, by its inputs. Source: torch/utils/cpp_extension.py 2.14.1
(load, load_inline, _jit_compile).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torchwheel.extension.jit_arguments import Arguments
from torchwheel.extension.project_changes import changed_nvcc_flags, with_assigned_toolkit
from torchwheel.host.this import cache_folder
from torchwheel.system.files import atomic_write, read_state, short_digest
from torchwheel.system.locks import file_lock

_CPP_HEADERS = ("#include <torch/extension.h>",)
_CUDA_HEADERS = ("#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>")
_NOTHING_TO_DO = b"ninja: no work to do."
# Different in each terminal or run.
_UNRELATED = ("COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", "WINDOWID", "_")
# Not by nvidia-smi, which may have to load the driver first: that takes seconds for each GPU.
_GPUS = Path("/proc/driver/nvidia/gpus")


def load(
    name: str,
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Compile an extension if it is not up to date, and load it.

    CUDA sources are compiled for the hardware in ``TORCHWHEEL_TARGET`` or ``TORCH_CUDA_ARCH_LIST``, else for the GPUs
    of this machine, else for PyTorch's own architectures.

    Args:
        name: the module's name.
        build_directory: also gets a copy of the module; objects are in torchwheel's cache.
        verbose: print the steps and the compilers' output.
        with_cuda: whether to use CUDA's headers and libraries; None for if there are CUDA sources.
        is_python_module: whether to import it; else its operators are registered.
        keep_intermediates: has no effect: objects are always kept.

    Returns:
        The module, or its path if it is not a Python module.

    Raises:
        RuntimeError: it cannot be built; the text is the output of a build.
    """
    del keep_intermediates
    given = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    standalone = "is_standalone=True" if is_standalone else ""
    changed = changed_nvcc_flags()
    arguments = Arguments(
        name=name,
        sources=tuple(str(Path(source).absolute()) for source in given),
        texts=(),
        cflags=tuple(extra_cflags or ()),
        cuda_cflags=(*changed.added, *(extra_cuda_cflags or ())),
        left_out_flags=changed.left_out,
        ldflags=tuple(extra_ldflags or ()),
        include_dirs=_absolute_folders(extra_include_paths),
        with_cuda=bool(with_cuda),
        build_directory=build_directory,
        unsupported="SYCL" if extra_sycl_cflags or with_sycl else standalone,
    )
    return _load_module(name, _provide_module(arguments, verbose=verbose), is_python_module=is_python_module)


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:
    """Compile an extension from source texts if it is not up to date, and load it.

    The texts are stored by content, so the object of an earlier text is reused.

    Args:
        functions: C++ functions to bind: names, or names with documentation.
        with_pytorch_error_handling: whether to convert PyTorch's exceptions in these.
        use_pch: has no effect: it would only save time.
        no_implicit_headers: whether the texts include PyTorch's and CUDA's headers themselves.
        others: see :func:`load`.

    Returns:
        As :func:`load`.

    Raises:
        RuntimeError: as :func:`load`.
        ValueError: ``functions`` is neither a list nor a mapping.
    """
    del keep_intermediates, use_pch
    cpp = [*(() if no_implicit_headers else _CPP_HEADERS), *_as_list(cpp_sources)]
    cpp += _binding_lines(functions, handled=with_pytorch_error_handling)
    texts = {"main.cpp": cpp}
    if cuda_sources:
        texts["cuda.cu"] = [*(() if no_implicit_headers else _CUDA_HEADERS), *_as_list(cuda_sources)]
    changed = changed_nvcc_flags()
    arguments = Arguments(
        name=name,
        sources=(),
        texts=tuple((file, "\n".join(lines)) for file, lines in texts.items()),
        cflags=tuple(extra_cflags or ()),
        cuda_cflags=(*changed.added, *(extra_cuda_cflags or ())),
        left_out_flags=changed.left_out,
        ldflags=tuple(extra_ldflags or ()),
        include_dirs=_absolute_folders(extra_include_paths),
        with_cuda=bool(with_cuda),
        build_directory=build_directory,
        unsupported="SYCL" if sycl_sources or extra_sycl_cflags or with_sycl else "",
    )
    return _load_module(name, _provide_module(arguments, verbose=verbose), is_python_module=is_python_module)


def _as_list(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _binding_lines(functions: str | Sequence[str] | Mapping[str, str] | None, *, handled: bool) -> list[str]:
    if functions is None:
        return []
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, (list, tuple)):
        functions = {name: name for name in functions}
    if not isinstance(functions, Mapping):
        raise ValueError(f"functions is {type(functions).__name__}, neither a list nor a mapping")
    call = "torch::wrap_pybind_function({})" if handled else "{}"
    lines = [
        f'm.def("{name}", {call.format(name)}, "{documentation}");'
        for name, documentation in functions.items()
    ]
    return ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *lines, "}"]


def _absolute_folders(folders: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(str(Path(folder).absolute()) for folder in folders or ())


def _provide_module(arguments: Arguments, *, verbose: bool) -> Path:
    """Return the module, after building it if it is not up to date."""
    record = cache_folder(os.environ) / "extensions" / "loaded" / f"{_request_key(arguments)}.json"
    if (module := _up_to_date(record)) is not None:
        return module
    from torchwheel.extension.jit_build import build_module  # takes longer than all the rest
    from torchwheel.host.ninja import find_ninja

    module, folder, tools = build_module(arguments, verbose=verbose)
    if ninja := find_ninja(os.environ):
        files = {str(path): _file_state(path) for path in (*tools, module, Path(ninja))}
        document = {"ninja": ninja, "folder": str(folder), "module": str(module), "files": files}
        atomic_write(record, json.dumps(document))
    return module


def _request_key(arguments: Arguments) -> str:
    """Return a key of the whole request and the GPUs of this machine."""
    environment = with_assigned_toolkit(os.environ)
    variables = [f"{name}={value}" for name, value in sorted(environment.items()) if name not in _UNRELATED]
    try:
        gpus = sorted(path.read_text() for path in _GPUS.glob("*/information"))
    except OSError:
        gpus = []
    return short_digest([json.dumps(asdict(arguments)), *variables, *gpus, sys.executable, *sys.path])


def _up_to_date(record: Path) -> Path | None:
    """Return the module of an earlier load, if none of its inputs has changed since."""
    known = read_state(record)
    if not known or any(_file_state(Path(path)) != state for path, state in known["files"].items()):
        return None
    folder = Path(known["folder"])
    with file_lock(folder / "lock"):
        # With -n ninja only says what it would do; it knows every header that the objects were made of.
        command = [known["ninja"], "-C", str(folder), "-n"]
        asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return Path(known["module"]) if asked.returncode == 0 and _NOTHING_TO_DO in asked.stdout else None


def _file_state(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_mtime_ns, status.st_size]


def _load_module(name: str, module: Path, *, is_python_module: bool) -> Any:
    # Its libraries must be there first.
    torch = importlib.import_module("torch")
    if not is_python_module:
        torch.ops.load_library(str(module))
        return str(module)
    spec = importlib.util.spec_from_file_location(name, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
