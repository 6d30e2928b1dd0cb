"""Whether a finished module keeps to the stable ABIs that it was built for, PyTorch's and Python's, by its symbols.

C++ namespaces are found in symbols as far as that takes no demangler. A symbol spells every name out the first time,
so that what it is about, and what its signature is made of, can be read from it. What follows a template's name is
left out.

Sources: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling (GCC, Clang);
https://learn.microsoft.com/cpp/build/reference/decorated-names (MSVC)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from torchwheel.errors import Problem
from torchwheel.extension.stable.stable_abi import (
    StableAbiRules,
    SymbolHistory,
    python_symbols,
    shim_functions,
    stable_abi_rules,
)
from torchwheel.versions import numbers
from torchwheel.wheel.archive import name_some
from torchwheel.wheel.linkage import Linkage

_SHIM_PREFIX = "aoti_torch_"
_PYTHON_PREFIXES = ("Py", "_Py")

# A nested name: qualifiers of a member function, then its parts, each with its length in front.
_ITANIUM_NESTED = re.compile(r"N[rVK]*[RO]?(?=[1-9])")
_ITANIUM_LENGTH = re.compile(r"[1-9][0-9]{0,5}")
# What stands in front of the entity's own name: virtual tables, type information, guards, local names.
_ITANIUM_OWN = re.compile(r"_Z(?:T[VTISHW]|G[VR]|Z)*")

_MSVC_NESTED = re.compile(r"((?:\w+@)+)(\w+)@@", re.ASCII)
# What stands in front of the entity's own name: nothing, or an operator's code (constructor, virtual table).
_MSVC_OWN = re.compile(r"\?(?:\?_?[0-9A-Z])?", re.ASCII)
# What stands in front of a type's name: codes of the types around it, and class, struct, union or enumeration.
_MSVC_TYPE = re.compile(r"[0-9A-Z_]*?(?:W4|[VUT])", re.ASCII)


def stable_abi_violations(linkage: Linkage, requested: str, origin: str) -> tuple[Problem, ...]:
    """What a module uses of PyTorch that the stable ABI of a release does not have."""
    symbols = [symbol.name for symbol in linkage.imports]
    return (*_unstable(symbols, stable_abi_rules(), origin), *_too_new(symbols, requested, origin))


def limited_api_violations(linkage: Linkage, python: str, origin: str) -> tuple[Problem, ...]:
    """What a module uses of Python that the stable ABI of a version does not have."""
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
        if entity.own or not f"{entity.name}::".startswith(tuple(f"{name}::" for name in rules.header_only)):
            yield entity.name


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


@dataclass(frozen=True)
class NamedEntity:
    """A qualified name in a symbol.

    Attributes:
        name: the name, ``c10::detail::torchCheckFail``.
        own: whether the symbol is this entity or a part of it, and does not only mention it in its signature.
    """

    name: str
    own: bool


def entities_of(symbol: str, namespaces: Collection[str]) -> tuple[NamedEntity, ...]:
    """The names of these outermost namespaces in a symbol, in order, each once; none in a symbol of C."""
    if symbol.startswith("_Z"):
        return tuple(dict.fromkeys(_itanium(symbol, namespaces)))
    if symbol.startswith("?"):
        return tuple(dict.fromkeys(_msvc(symbol, namespaces)))
    return ()


def global_name(symbol: str) -> str:
    """The name of a function or variable outside of all namespaces; for others, the symbol."""
    if symbol.startswith("_Z") and (length := _ITANIUM_LENGTH.match(symbol, 2)):
        return symbol[length.end() : length.end() + int(length[0])]
    if symbol.startswith("?") and (name := re.match(r"\?(\w+)@@", symbol, re.ASCII)):
        return name[1]
    return symbol


def _itanium(symbol: str, namespaces: Collection[str]) -> Iterator[NamedEntity]:
    prefix = _ITANIUM_OWN.match(symbol)
    own = prefix.end() if prefix else 0
    for match in _ITANIUM_NESTED.finditer(symbol):
        parts = _parts(symbol, match.end())
        if len(parts) > 1 and parts[0] in namespaces:
            yield NamedEntity("::".join(parts), own=match.start() == own)


def _parts(symbol: str, position: int) -> list[str]:
    parts = []
    while length := _ITANIUM_LENGTH.match(symbol, position):
        position = length.end() + int(length[0])
        parts.append(symbol[length.end() : position])
    return parts


def _msvc(symbol: str, namespaces: Collection[str]) -> Iterator[NamedEntity]:
    """Names stand innermost first there, and end with two signs."""
    own = _MSVC_OWN.match(symbol)
    start = own.end() if own else 0
    for match in _MSVC_NESTED.finditer(symbol, start):
        if match[2] not in namespaces:
            continue
        parts = match[1].rstrip("@").split("@")
        if match.start() == start:
            yield NamedEntity("::".join([match[2], *reversed(parts)]), own=True)
        else:
            yield NamedEntity(f"{match[2]}::{_MSVC_TYPE.sub('', parts[-1], count=1)}", own=False)
