"""PyTorch's stable ABI and Python's: the releases that can be requested, and checks of finished modules.

C++ namespaces are found in symbols without a full demangler. A symbol spells out every name the first time, so the
entity and the types in its signature can be read. The part after a template's name is ignored.

Sources: https://docs.pytorch.org/docs/2.14/notes/libtorch_stable_abi.html;
https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling (GCC, Clang);
https://learn.microsoft.com/cpp/build/reference/decorated-names (MSVC)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import Problem
from torchwheel.reporting.terminal import join_items
from torchwheel.system.toml import read_toml
from torchwheel.versions import at_least, parse_numbers
from torchwheel.wheel.objfile import Linkage

_FOLDER = Path(__file__).parent
_REQUEST = re.compile(r"\d+\.\d+", re.ASCII)

# A nested name: qualifiers of a member function, then its parts, each with its length in front.
_ITANIUM_NESTED = re.compile(r"N[rVK]*[RO]?(?=[1-9])")
_ITANIUM_LENGTH = re.compile(r"[1-9][0-9]{0,5}")
# Limit for one name: if every letter could begin one, reading each to its end would take quadratic time.
_MOST_PARTS = 32
# Prefixes of the entity's own name: virtual tables, type information, guards, local names.
_ITANIUM_OWN = re.compile(r"_Z(?:T[VTISHW]|G[VR]|Z)*")

# Its first part must not be in the middle of another name, or the search would restart at every letter.
_MSVC_NESTED = re.compile(r"(?<!\w)(?<!\w@)((?:\w+@)+)(\w+)@@", re.ASCII)
# Prefixes of the entity's own name: none, or an operator's code (constructor, virtual table).
_MSVC_OWN = re.compile(r"\?(?:\?_?[0-9A-Z])?", re.ASCII)
# Prefixes of a type's name: codes of the types around it, and class, struct, union or enumeration.
_MSVC_TYPE = re.compile(r"\A[0-9A-Z_]*?(?:W4|[VUT])", re.ASCII)


@dataclass(frozen=True)
class SymbolHistory:
    """The symbols of a stable ABI by release."""

    since: Mapping[str, str]
    newest: str

    def lacks(self, symbol: str, release: str) -> bool:
        """Whether a release lacks a symbol; a newer, unknown release is assumed to have unlisted symbols."""
        first = self.since.get(symbol)
        if first is None:
            return at_least(self.newest, release)
        return not at_least(release, first)


@cache
def stable_abi_rules() -> dict[str, dict[str, Any]]:
    return read_toml(_FOLDER / "stable_abi.toml")


@cache
def shim_functions() -> SymbolHistory:
    return read_history(_FOLDER / "shim_functions.toml")


@cache
def python_symbols() -> SymbolHistory:
    """The symbols of Python's stable ABI, as CPython's Misc/stable_abi.toml lists them."""
    # Imported here because few modules use that ABI, and every build imports this module.
    from abi3info import DATAS, FUNCTIONS

    added = {symbol.name: entry.added for symbol, entry in (*FUNCTIONS.items(), *DATAS.items())}
    since = {name: f"{version.major}.{version.minor}" for name, version in added.items()}
    return SymbolHistory(since, max(since.values(), key=parse_numbers))


def read_history(path: Path) -> SymbolHistory:
    """Read a file of functions by the release that added them, oldest first."""
    rows = read_toml(path)["release"]
    since = {
        prefix + name: row["version"]
        for row in rows
        for prefixes, names in row["functions"].items()
        for prefix in prefixes.split()
        for name in names.split()
    }
    return SymbolHistory(since, rows[-1]["version"])


def target_version_macro(requested: str) -> str:
    """Return the macro that limits PyTorch's stable headers to a release: ``TORCH_TARGET_VERSION=0x020a000000000000``.

    Major and minor version have one byte each; the six bytes for patch and tag are zero, as in the headers' own
    ``TORCH_VERSION_2_10_0``. The headers have the functions for CUDA only with ``USE_CUDA`` defined as well.
    Source: torch/csrc/stable/version.h

    Raises:
        ValueError: it is not a release.
    """
    major, minor = parse_numbers(requested, 2)
    return f"TORCH_TARGET_VERSION=0x{major:02x}{minor:02x}000000000000"


def stable_abi_problems(requested: str, torch_version: str, origin: str = "") -> Iterator[Problem]:
    """Report problems of a requested stable ABI, ``2.10``."""
    oldest, installed = stable_abi_rules()["target"]["oldest"], parse_numbers(torch_version, 2)
    newest = f"{installed[0]}.{installed[1]}"
    if not _REQUEST.fullmatch(requested):
        yield Problem.of("malformed-stable-abi", origin=origin, requested=requested)
    elif parse_numbers(requested) < parse_numbers(oldest):
        yield Problem.of("stable-abi-too-old", origin=origin, requested=requested, oldest=oldest)
    elif parse_numbers(requested) > installed:
        values = {"requested": requested, "torch": torch_version, "newest": newest}
        yield Problem.of("stable-abi-too-new", origin=origin, **values)


def stable_abi_violations(linkage: Linkage, requested: str, origin: str) -> Iterator[Problem]:
    """Report PyTorch symbols of a module that are not in the stable ABI of a release."""
    if found := dict.fromkeys(name for symbol in linkage.imports for name in unstable_names(symbol)):
        yield Problem.of("outside-stable-abi", origin=origin, symbols=join_items(list(found)))
    history = shim_functions()
    used = [name for name in linkage.imports if name in history.since or name.startswith("aoti_torch_")]
    if lacking := [name for name in used if history.lacks(name, requested)]:
        releases = [history.since[name] for name in lacking if name in history.since]
        known = len(releases) == len(lacking)
        ask = f"ask for stable_abi = {max(releases, key=parse_numbers)!r}, or " if known else ""
        values = {"requested": requested, "symbols": _with_release(lacking, history), "ask": ask}
        yield Problem.of("outside-stable-abi/functions", origin=origin, **values)


def limited_api_violations(linkage: Linkage, python: str, origin: str) -> Iterator[Problem]:
    """Report Python symbols of a module that are not in the stable ABI of a version."""
    history = python_symbols()
    used = [name for name in linkage.imports if name.startswith(("Py", "_Py"))]
    if lacking := [name for name in used if history.lacks(name, python)]:
        values = {"python": python, "symbols": _with_release(lacking, history)}
        yield Problem.of("outside-limited-api", origin=origin, **values)


def unstable_names(symbol: str) -> Iterator[str]:
    """Find the names of PyTorch's unstable API in a symbol: its own, and those of types that are not header-only."""
    unstable, header_only = stable_abi_rules()["unstable"], stable_abi_rules()["header-only"]["types"]
    if global_name(symbol).startswith(tuple(unstable["prefixes"])):
        yield global_name(symbol)
    names = _itanium_names if symbol.startswith("_Z") else _msvc_names if symbol.startswith("?") else None
    for name, is_own in names(symbol) if names else ():
        outermost = name.partition("::")[0] in unstable["namespaces"]
        if outermost and (is_own or not f"{name}::".startswith(tuple(f"{one}::" for one in header_only))):
            yield name


def _with_release(names: Sequence[str], history: SymbolHistory) -> str:
    return join_items(
        [f"{name} (since {history.since[name]})" if name in history.since else name for name in names]
    )


def global_name(symbol: str) -> str:
    """The name of a function or variable outside of all namespaces; for others, the symbol itself."""
    if symbol.startswith("_Z") and (length := _ITANIUM_LENGTH.match(symbol, 2)):
        return symbol[length.end() : length.end() + int(length[0])]
    if symbol.startswith("?") and (name := re.match(r"\?(\w+)@@", symbol, re.ASCII)):
        return name[1]
    return symbol


def _itanium_names(symbol: str) -> Iterator[tuple[str, bool]]:
    """Yield the nested names in a symbol, and whether it is this entity or a part of it."""
    prefix = _ITANIUM_OWN.match(symbol)
    for match in _ITANIUM_NESTED.finditer(symbol):
        parts, position = list[str](), match.end()
        while len(parts) < _MOST_PARTS and (length := _ITANIUM_LENGTH.match(symbol, position)):
            position = length.end() + int(length[0])
            parts.append(symbol[length.end() : position])
        if parts[1:]:
            yield "::".join(parts), prefix is not None and match.start() == prefix.end()


def _msvc_names(symbol: str) -> Iterator[tuple[str, bool]]:
    """The same in an MSVC symbol, where the innermost part comes first and ``@@`` ends the name."""
    own = _MSVC_OWN.match(symbol)
    for match in _MSVC_NESTED.finditer(symbol[own.end() :] if own else symbol):
        parts, is_own = match[1].rstrip("@").split("@"), match.start() == 0
        inner = parts[::-1] if is_own else [_MSVC_TYPE.sub("", parts[-1], count=1)]
        yield "::".join([match[2], *inner]), is_own
