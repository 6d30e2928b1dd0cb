"""setuptools' extensions with PyTorch: made by PyTorch's functions, described for the plan, changed for a target."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import Extension as SetuptoolsExtension

from torchwheel.extension.compile.torch_steps import set_variables
from torchwheel.extension.cpp_extension_compat import provide_toolkit
from torchwheel.extension.device_code import own_architectures
from torchwheel.extension.extension_plan import (
    WITH_CUDA,
    Extension,
    ExtensionProject,
    Language,
    PlannedExtension,
    language_of,
)
from torchwheel.extension.handover import errors_handed_over, project_here
from torchwheel.extension.options import Spelling, read_values
from torchwheel.extension.sources import unmatched_architectures
from torchwheel.host.compilers import command_words
from torchwheel.proof.stable_abi import target_version_macro
from torchwheel.reporting.errors import Problem, TorchwheelError, stop_on
from torchwheel.settings.known_keys import Key
from torchwheel.system.paths import exists
from torchwheel.torch_install.cpp_extension import cpp_extension
from torchwheel.torch_install.installed_torch import InstalledTorch

# torchwheel's own options; setuptools warns about unknown ones.
_OWN = ("stable-abi", "unity", "front-end", "architectures", "cuda-sources")
OPTIONS: dict[str, dict[str, Any]] = {}
"""The name of an extension of torchwheel's functions -> its own options."""
DESCRIBED: dict[str, Extension] = {}
"""The name of an extension of a table -> what the table says."""

_LIBRARIES = frozenset({"c10", "torch", "torch_cpu"})
_CUDA_LIBRARIES = frozenset({"c10_cuda", "torch_cuda"})
_STATIC_RUNTIME = ("cudart_static", "dl", "rt", "pthread")
_STABLE_RELEASE = re.compile(
    r"-DTORCH_TARGET_VERSION=(?:(?i:0x0*(?P<major>[0-9a-f]{1,2})(?P<minor>[0-9a-f]{2})[0-9a-f]{12}[ul]*)"
    r"|TORCH_VERSION_(\d+)_(\d+)_\d+)"
)


def _argument_name(key: str) -> str:
    return "source_architectures" if key == "architectures" else key.replace("-", "_")


def _format_example(key: Key) -> str:
    text = f'"{key.example}"' if key.type.quoted else key.example.replace("true", "True")
    if key.table:
        pattern, _, value = key.example.rpartition("=")
        text = f'{{{pattern}: "{value}"}}'
    return f"{_argument_name(key.name)}={text}"


SETUP_PY = Spelling("an argument of an extension", _argument_name, _format_example)


def _module() -> ModuleType | None:
    """The installed PyTorch's module; None where there is none, as for an sdist."""
    with suppress(TorchwheelError):
        return cpp_extension()
    return None


def torch_base(otherwise: type) -> Any:
    """PyTorch's own ``BuildExtension``; another class where there is no PyTorch."""
    return getattr(_module(), "BuildExtension", otherwise)


def CppExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> SetuptoolsExtension:
    """Create a C++ extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CppExtension`` takes, and ``stable_abi="2.10"`` and ``unity=True`` besides.
    """
    return _make_extension("CppExtension", name, sources, args, kwargs)


def CUDAExtension(name: str, sources: Sequence[Any], *args: Any, **kwargs: Any) -> SetuptoolsExtension:
    """Create a C++ and CUDA extension of PyTorch.

    Takes what ``torch.utils.cpp_extension.CUDAExtension`` takes, and besides: ``stable_abi="2.10"``, ``unity=True``,
    ``front_end="shared"``, ``source_architectures={"sm90/*.cu": "9.0a"}``, and ``cuda_sources=[...]``: sources that are
    compiled, with the macro ``WITH_CUDA`` for all, only where PyTorch has CUDA and the target is not the CPU.
    """
    return _make_extension("CUDAExtension", name, sources, args, kwargs)


def _make_extension(
    function: str, name: str, sources: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> SetuptoolsExtension:
    options, module = _take_own_options(kwargs), _module()
    cuda_sources, stable = list(options.get("cuda_sources", ())), options.get("stable_abi")
    if stable is not None or kwargs.get("py_limited_api"):
        # A free-threaded Python has none, and its module is named otherwise.
        options["limited_api"] = True
    if cuda_sources:
        # An sdist contains an extension's dependencies, whether or not it is compiled here.
        kwargs["depends"] = [*(kwargs.get("depends") or ()), *cuda_sources]
    if module is not None:
        if function == "CUDAExtension" or cuda_sources:
            with errors_handed_over():
                project = project_here()
            # The plan reports one that asks for CUDA where there is none.
            options["cuda"] = function == "CUDAExtension" and not cuda_sources
            with_cuda = project.torch.hip is not None or project.builds_cuda
            function = "CUDAExtension" if with_cuda else "CppExtension"
        if cuda_sources and function == "CUDAExtension":
            sources = [*sources, *cuda_sources]
            kwargs["define_macros"] = [*(kwargs.get("define_macros") or ()), (WITH_CUDA, None)]
        if function == "CUDAExtension":
            provide_toolkit(vars(module), asked=True)
    spelled = [os.fspath(one) for one in sources]
    extension = _call_torch(function, name, spelled, kwargs, *args, stable_abi=stable)
    # Cython makes a new extension of setuptools' own arguments.
    OPTIONS[name] = options
    return extension


def _take_own_options(arguments: dict[str, Any]) -> dict[str, Any]:
    given = ((name, arguments.pop(name, None)) for name in map(_argument_name, _OWN))
    found = {name: value for name, value in given if value is not None}
    if isinstance(sources := found.get("cuda_sources"), (list, tuple)):
        found["cuda_sources"] = list(map(os.fspath, sources))
    return found


def _call_torch(
    function: str,
    name: str,
    sources: Sequence[str],
    options: dict[str, Any],
    *args: Any,
    stable_abi: str | None,
) -> SetuptoolsExtension:
    """Create an extension by a function of PyTorch's; a plain one where there is no PyTorch."""
    module = _module()
    if stable_abi is not None:
        options["py_limited_api"] = True
    if module is None:
        others = {key: options[key] for key in options.keys() - {"dlink", "dlink_libraries"}}
        extension = SetuptoolsExtension(name, list(sources), *args, **others)
    else:
        extension = getattr(module, function)(name, list(sources), *args, **options)
    if stable_abi is not None:
        _make_stable(extension, str(stable_abi), cuda=function == "CUDAExtension")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        # setuptools would name the module for all Pythons, but free-threaded ones have no limited API.
        extension.py_limited_api = False
    return extension


def _make_stable(extension: Any, release: str, *, cuda: bool) -> None:
    """Have an extension use only the stable ABI of a release, with CUDA's runtime linked into it."""
    try:
        macro, _, value = target_version_macro(release).partition("=")
    except ValueError:
        # The plan reports it.
        return
    extension.define_macros.append((macro, value))
    if cuda:
        # torch/csrc/stable/accelerator.h and c/shim.h need it for their CUDA parts.
        extension.define_macros.append(("USE_CUDA", None))
    runtime = _STATIC_RUNTIME if os.name == "posix" else _STATIC_RUNTIME[:1]
    libraries = [[one] if one != "cudart" else runtime for one in extension.libraries]
    extension.libraries = [name for names in libraries for name in names]


def setuptools_extension(one: Extension, project: ExtensionProject, torch: InstalledTorch) -> Any:
    """Create the setuptools extension of a described one, by PyTorch's own function."""
    own = command_words(project.settings.env.get("CUDAFLAGS", ""), project.host.system)
    options: dict[str, Any] = {
        # PyTorch's function adds to them.
        **deepcopy(dict(one.arguments)),
        "extra_compile_args": {
            "cxx": list(one.flags.get(Language.CXX, ())),
            "nvcc": [*one.flags.get(Language.CUDA, ()), *own],
        },
        "extra_link_args": [*_run_path(one, project, torch), *one.arguments.get("extra_link_args", ())],
        "depends": list(one.depends),
        "py_limited_api": one.wants_limited_api,
    }
    function = "CUDAExtension" if one.uses_cuda else "CppExtension"
    return _call_torch(function, one.name, one.sources, options, stable_abi=one.stable_abi)


def _run_path(one: Extension, project: ExtensionProject, torch: InstalledTorch) -> Iterator[str]:
    """The library folders beside the installed module, so that it can be imported before PyTorch is."""
    if project.host.system == "Windows":
        return
    origin = "@loader_path" if project.host.system == "Darwin" else "$ORIGIN"
    up = "/".join([origin, *[".."] * one.name.count(".")])
    for folder in (torch.root / "lib", *(torch.nvidia_library_dirs if one.uses_cuda else ())):
        yield f"-Wl,-rpath,{up}/{folder.relative_to(torch.root.parent).as_posix()}"


def torch_extensions(extensions: Iterable[Any] | None) -> list[Any]:
    """Return the extensions that have PyTorch's headers or libraries, whoever made them."""
    module = _module()
    root = str(Path(module.TORCH_LIB_PATH).parent) if module else None
    return [one for one in extensions or () if _uses_torch(one, root)]


def _uses_torch(extension: Any, root: str | None) -> bool:
    folders = (os.fspath(folder) for folder in extension.include_dirs or ())
    return (
        extension.name in OPTIONS
        or not _LIBRARIES.isdisjoint(extension.libraries or ())
        or any(root is not None and folder.startswith(root) for folder in folders)
        or any(language_of(os.fspath(one)) is Language.CUDA for one in extension.sources or ())
    )


def described_setup_py(extensions: Iterable[Any], project: ExtensionProject) -> tuple[Extension, ...]:
    """Describe the extensions of a setup.py, as far as the target and the wheel's name depend on them."""
    problems: list[Problem] = []
    described = tuple(_describe(extension, project.folder, problems) for extension in extensions)
    stop_on(problems)
    return described


def _describe(extension: Any, project: Path, problems: list[Problem]) -> Extension:
    if (described := DESCRIBED.get(extension.name)) is not None:
        return described
    origin = f"setup.py, extension {extension.name}"
    options = OPTIONS.get(extension.name, {})
    given = {key: options[name] for key in _OWN if (name := _argument_name(key)) in options}
    values = read_values(given, origin, SETUP_PY, problems)
    by_language = _flags_by_language(extension.extra_compile_args)
    sources = tuple(sorted(os.fspath(source) for source in extension.sources or ()))
    # Without PyTorch these are not among the sources.
    patterns = (*sources, *options.get("cuda_sources", ()))
    architectures = values.get("architectures", {})
    problems += unmatched_architectures(architectures, patterns, _argument_name("architectures"), origin)
    libraries = {name for name in extension.libraries or () if isinstance(name, str)}
    depends = [os.fspath(path) for path in extension.depends or ()]
    limited = bool(options.get("limited_api") or getattr(extension, "py_limited_api", False))
    return Extension(
        name=extension.name,
        sources=sources,
        # PyTorch's own command adds macros, which change neither the target nor the wheel's name.
        flags={
            language: tuple(flag for flag in flags if not flag.startswith("-D"))
            for language, flags in by_language.items()
        },
        source_architectures=architectures,
        cuda=bool(options.get("cuda")) or not _CUDA_LIBRARIES.isdisjoint(libraries),
        stable_abi=values.get("stable-abi") or (_stable_release(extension) if limited else None),
        limited_api=limited,
        unity=values.get("unity", False),
        front_end=values.get("front-end", "separate"),
        depends=tuple(path for path in depends if exists(project / path)),
        by_setup_py=True,
        origin=origin,
    )


def _stable_release(extension: Any) -> str | None:
    """The release in the macro that limits PyTorch's headers to the stable ABI; None for none."""
    macros = [f"-D{macro[0]}={macro[1]}" for macro in extension.define_macros or () if len(macro) == 2]
    by_language = _flags_by_language(extension.extra_compile_args)
    for flag in (*macros, *by_language[Language.CXX], *by_language[Language.CUDA]):
        if match := _STABLE_RELEASE.fullmatch(flag):
            if match["major"]:
                return f"{int(match['major'], 16)}.{int(match['minor'], 16)}"
            return f"{match[3]}.{match[4]}"
    return None


def _flags_by_language(given: Any) -> dict[Language, tuple[str, ...]]:
    """Read ``extra_compile_args``: a list for every language, or a table by ``cxx`` and ``nvcc``."""
    table = given if isinstance(given, Mapping) else {language.value: given for language in Language}
    return {
        language: tuple(map(str, flags)) if isinstance(flags, (list, tuple)) else ()
        for language in Language
        for flags in (table.get(language.value),)
    }


def fit_flags(extension: Any, planned: PlannedExtension, choose: Callable[[list[str]], list[str]]) -> None:
    """Have an extension compiled for the target, whatever PyTorch's function would choose from its flags.

    Args:
        choose: PyTorch's function that chooses nvcc's options for architectures.
    """
    # With options these are the project's own flags.
    if planned.usual is None or planned.options:
        return
    given = extension.extra_compile_args
    before = _flags_by_language(given)
    own = own_architectures(before[Language.CUDA], planned.extension.origin)
    fitting, wanted, chosen = list(own.others), planned.usual.for_nvcc(), list[str]()
    # ValueError: an architecture that this release does not know.
    with set_variables({"TORCH_CUDA_ARCH_LIST": str(planned.usual)}), suppress(ValueError):
        chosen = choose(fitting)
    if set(chosen) != set(wanted):
        fitting += wanted
    if fitting != list(before[Language.CUDA]):
        others = given if isinstance(given, Mapping) else {"cxx": list(before[Language.CXX])}
        extension.extra_compile_args = {**others, "nvcc": fitting}
