"""What torchwheel needs to know of setuptools' extensions, and what it changes in them for a target."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torchwheel.extension.compile.flags import own_architectures
from torchwheel.extension.compile.torch_steps import set_variables
from torchwheel.extension.extension_plan import (
    Extension,
    ExtensionProject,
    Language,
    PlannedExtension,
    language_of,
)
from torchwheel.extension.options import Spelling, read_values
from torchwheel.extension.sources import unmatched_architectures
from torchwheel.reporting.errors import Problem, stop_on
from torchwheel.settings.known_keys import Key
from torchwheel.system.paths import exists

# torchwheel's own options; setuptools warns about unknown ones.
_OWN = ("stable-abi", "unity", "front-end", "architectures", "cuda-sources")
OPTIONS: dict[str, dict[str, Any]] = {}
"""The name of an extension of torchwheel's functions -> its own options."""
DESCRIBED: dict[str, Extension] = {}
"""The name of an extension of a table -> what the table says."""

_LIBRARIES = frozenset({"c10", "torch", "torch_cpu"})
_CUDA_LIBRARIES = frozenset({"c10_cuda", "torch_cuda"})
_MACRO = "TORCH_TARGET_VERSION"
_RELEASE = re.compile(
    r"0x0*(?P<major>[0-9a-f]{1,2})(?P<minor>[0-9a-f]{2})[0-9a-f]{12}[ul]*|TORCH_VERSION_(\d+)_(\d+)_\d+", re.I
)


def _argument_name(key: str) -> str:
    return "source_architectures" if key == "architectures" else key.replace("-", "_")


def _format_example(key: Key) -> str:
    pattern, _, value = key.example.rpartition("=")
    text = f'"{key.example}"' if key.type.quoted else key.example.replace("true", "True")
    return (
        f'{_argument_name(key.name)}={{{pattern}: "{value}"}}'
        if key.table
        else f"{_argument_name(key.name)}={text}"
    )


SETUP_PY = Spelling("an argument of an extension", _argument_name, _format_example)


def own_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take torchwheel's own options out of the arguments of an extension."""
    names = map(_argument_name, _OWN)
    found = {name: arguments.pop(name) for name in names if name in arguments}
    if isinstance(sources := found.get("cuda_sources"), (list, tuple)):
        found["cuda_sources"] = list(map(os.fspath, sources))
    return {name: value for name, value in found.items() if value is not None}


def uses_torch(extension: Any, root: Path | None) -> bool:
    """Whether an extension has PyTorch's headers or libraries, whoever made it.

    Args:
        root: the folder of the installed PyTorch; None if there is none.
    """
    folders = (os.fspath(folder) for folder in extension.include_dirs or ())
    return (
        extension.name in OPTIONS
        or not _LIBRARIES.isdisjoint(extension.libraries or ())
        or any(root is not None and folder.startswith(str(root)) for folder in folders)
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
    problems += unmatched_architectures(
        values.get("architectures", {}), patterns, _argument_name("architectures"), origin
    )
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
        source_architectures=values.get("architectures", {}),
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
    flags = [flag for flags in _flags_by_language(extension.extra_compile_args).values() for flag in flags]
    for flag in (*macros, *flags):
        name, _, value = flag.removeprefix("-D").partition("=")
        if flag.startswith("-D") and name == _MACRO and (match := _RELEASE.fullmatch(value)):
            if match["major"]:
                return f"{int(match['major'], 16)}.{int(match['minor'], 16)}"
            return f"{match[3]}.{match[4]}"
    return None


def _flags_by_language(given: Any) -> dict[Language, tuple[str, ...]]:
    """Read ``extra_compile_args``: a list for every language, or a table by ``cxx`` and ``nvcc``."""
    table = given if isinstance(given, Mapping) else {"cxx": given, "nvcc": given}
    listed = [
        flags if isinstance(flags := table.get(name), (list, tuple)) else () for name in ("cxx", "nvcc")
    ]
    cxx, nvcc = (tuple(map(str, flags)) for flags in listed)
    return {Language.CXX: cxx, Language.CUDA: nvcc}


def fit_flags(extension: Any, planned: PlannedExtension, choose: Callable[[list[str]], list[str]]) -> None:
    """Change an extension's flags for nvcc, if PyTorch's own command would choose other architectures.

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
