"""Finding C++ namespaces in symbols, as far as that takes no demangler.

A symbol spells every name out the first time, so that what it is about, and what its signature is made of, can be read
from it. What follows a template's name is left out.

Sources: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling (GCC, Clang);
https://learn.microsoft.com/cpp/build/reference/decorated-names (MSVC)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

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
