"""Whether a finished module keeps to the stable ABIs that it was built for: PyTorch's and Python's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from torchwheel.errors import Problem
from torchwheel.extension.stable.cxx_symbols import NamedEntity, entities_of, global_name
from torchwheel.extension.stable.stable_abi_data import (
    StableAbiRules,
    SymbolHistory,
    python_symbols,
    shim_functions,
    stable_abi_rules,
)
from torchwheel.versions import numbers
from torchwheel.wheel.archive import name_some
from torchwheel.wheel.linkage import Linkage
from torchwheel.wheel.objfile import read_linkage
from torchwheel.wheel.platform_level import platform_problems

_SHIM_PREFIX = "aoti_torch_"
_PYTHON_PREFIXES = ("Py", "_Py")


def check_stable_library(
    source: Path | BinaryIO,
    requested: str,
    *,
    python: str | None,
    platform_tag: str | None = None,
    origin: str = "",
) -> tuple[Problem, ...]:
    """Everything with which a module breaks what was promised of it; empty if it keeps it all.

    Args:
        source: the module: a path, or a seekable binary stream.
        requested: the oldest PyTorch release it must run with, ``2.10``.
        python: the oldest Python it must run with, ``3.10``; None if it is for one Python alone.
        platform_tag: the platform tag of its wheel; None to leave the C library out.
        origin: name for messages; a path names itself.

    Raises:
        TorchwheelError: the file cannot be read, is damaged, or is neither ELF nor PE of 64 bits.
    """
    linkage = read_linkage(source, origin)
    place = origin or (str(source) if isinstance(source, Path) else "")
    return (
        *stable_abi_violations(linkage, requested, place),
        *(limited_api_violations(linkage, python, place) if python is not None else ()),
        *(platform_problems(linkage, platform_tag, place) if platform_tag is not None else ()),
    )


def stable_abi_violations(linkage: Linkage, requested: str, origin: str) -> tuple[Problem, ...]:
    """What a module uses of PyTorch that the stable ABI of a release does not have.

    Args:
        linkage: what the module takes from others.
        requested: the oldest PyTorch release it must run with, ``2.10``.
        origin: the module, for messages.
    """
    symbols = [symbol.name for symbol in linkage.imports]
    return (*_unstable(symbols, stable_abi_rules(), origin), *_too_new(symbols, requested, origin))


def limited_api_violations(linkage: Linkage, python: str, origin: str) -> tuple[Problem, ...]:
    """What a module uses of Python that the stable ABI of a version does not have.

    Args:
        linkage: what the module takes from others.
        python: the oldest Python it must run with, ``3.10``.
        origin: the module, for messages.
    """
    history = python_symbols()
    used = [symbol.name for symbol in linkage.imports if symbol.name.startswith(_PYTHON_PREFIXES)]
    lacking = [name for name in used if history.lacks(name, python)]
    if not lacking:
        return ()
    return (
        Problem(
            id="outside-limited-api",
            what=f"it uses what the limited API of Python {python} does not have: {_with_release(lacking, history)}",
            remedy="use what the limited API has instead; headers that need more, as pybind11's, cannot be used. "
            "Or build for one Python: without stable_abi and limited_api",
            why=f"the tag abi3 says that it runs with every Python from {python} on",
            origin=origin,
        ),
    )


def _unstable(symbols: Sequence[str], rules: StableAbiRules, origin: str) -> Iterator[Problem]:
    found = dict.fromkeys(name for symbol in symbols for name in _unstable_names(symbol, rules))
    if found:
        yield Problem(
            id="outside-stable-abi",
            what=f"it uses PyTorch's C++ API, which is not in the stable ABI: {name_some(list(found))}",
            remedy="include torch/csrc/stable/*.h and torch/headeronly/*.h instead of torch/extension.h, ATen and c10: "
            "torch::stable::Tensor for at::Tensor, STD_TORCH_CHECK for TORCH_CHECK, STABLE_TORCH_LIBRARY for "
            "TORCH_LIBRARY. Or build for one release: without stable_abi",
            why="the C++ API changes with every minor release, and the module would not load",
            origin=origin,
        )


def _unstable_names(symbol: str, rules: StableAbiRules) -> Iterator[str]:
    if global_name(symbol).startswith(rules.prefixes):
        yield global_name(symbol)
    for entity in entities_of(symbol, rules.namespaces):
        if entity.own or not _is_header_only(entity, rules):
            yield entity.name


def _is_header_only(entity: NamedEntity, rules: StableAbiRules) -> bool:
    return any(entity.name == name or entity.name.startswith(f"{name}::") for name in rules.header_only)


def _too_new(symbols: Sequence[str], requested: str, origin: str) -> Iterator[Problem]:
    history = shim_functions()
    used = [name for name in symbols if name in history.since or name.startswith(_SHIM_PREFIX)]
    lacking = [name for name in used if history.lacks(name, requested)]
    if not lacking:
        return
    releases = [history.since[name] for name in lacking if name in history.since]
    ask = f"ask for stable_abi = {max(releases, key=numbers)!r}, or " if len(releases) == len(lacking) else ""
    yield Problem(
        id="outside-stable-abi",
        what=f"it calls functions that PyTorch {requested} does not have: {_with_release(lacking, history)}",
        remedy=f"{ask}leave these calls out",
        why="the module would not load there; PyTorch's headers hide such functions only where TORCH_TARGET_VERSION is "
        "defined, and not all of them",
        origin=origin,
    )


def _with_release(names: Sequence[str], history: SymbolHistory) -> str:
    return name_some(
        [f"{name} (since {history.since[name]})" if name in history.since else name for name in names]
    )
