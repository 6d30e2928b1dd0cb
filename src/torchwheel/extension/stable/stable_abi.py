"""PyTorch's stable ABI and Python's: which releases can be requested, the macro that limits headers, the content.

Source: https://docs.pytorch.org/docs/2.14/notes/libtorch_stable_abi.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import Problem
from torchwheel.versions import at_least, numbers

_FOLDER = Path(__file__).parent
_REQUEST = re.compile(r"\d+\.\d+", re.ASCII)


@dataclass(frozen=True)
class StableAbiRules:
    """What an extension for PyTorch's stable ABI may not use.

    Attributes:
        namespaces: C++ namespaces whose symbols are not stable.
        prefixes: beginnings of C names that are not stable.
        header_only: what in these namespaces needs nothing of PyTorch's libraries, ``c10::Half``.
    """

    oldest: str
    namespaces: tuple[str, ...]
    prefixes: tuple[str, ...]
    header_only: tuple[str, ...]


@dataclass(frozen=True)
class SymbolHistory:
    """The symbols of a stable ABI, and since when there are which.

    Attributes:
        since: symbol -> the release that has it first.
    """

    since: Mapping[str, str]
    newest: str

    def lacks(self, symbol: str, release: str) -> bool:
        """Whether a release lacks a symbol; of a release that is not known yet, only what a known one added later."""
        first = self.since.get(symbol)
        if first is None:
            return at_least(self.newest, release)
        return not at_least(release, first)


@cache
def stable_abi_rules() -> StableAbiRules:
    tables = read_toml(_FOLDER / "stable_abi.toml")
    return StableAbiRules(
        oldest=tables["target"]["oldest"],
        namespaces=tuple(tables["unstable"]["namespaces"]),
        prefixes=tuple(tables["unstable"]["prefixes"]),
        header_only=tuple(tables["header-only"]["types"]),
    )


@cache
def shim_functions() -> SymbolHistory:
    """The functions of PyTorch's stable C interface."""
    return read_history(_FOLDER / "shim_functions.toml", "release", "functions")


@cache
def python_symbols() -> SymbolHistory:
    """The symbols of Python's stable ABI."""
    return read_history(_FOLDER / "python_stable_abi.toml", "added", "symbols")


def read_history(path: Path, table: str, key: str) -> SymbolHistory:
    """Read a file that lists symbols by the release that added them, oldest first."""
    rows = read_toml(path)[table]
    return SymbolHistory({symbol: row["version"] for row in rows for symbol in row[key]}, rows[-1]["version"])


def target_version_macro(requested: str) -> str:
    """The macro that limits PyTorch's stable headers to a release: ``TORCH_TARGET_VERSION=0x020a000000000000``.

    One byte for each of major and minor version; the six bytes for patch and tag stay zero, as the headers' own
    ``TORCH_VERSION_2_10_0`` has them. The headers show the functions for CUDA only with ``USE_CUDA`` defined as well.
    Source: torch/csrc/stable/version.h

    Args:
        requested: a release without problems, ``2.10``.

    Raises:
        ValueError: it is no release.
    """
    major, minor = numbers(requested, 2)
    return f"TORCH_TARGET_VERSION=0x{major:02x}{minor:02x}000000000000"


def stable_abi_problems(requested: str, torch_version: str, origin: str = "") -> Iterator[Problem]:
    """What stands against an extension for the stable ABI of a release, ``2.10``; nothing if nothing does."""
    oldest = stable_abi_rules().oldest
    installed = numbers(torch_version, 2)
    if not installed:
        raise ValueError(f"{torch_version!r} is no version of PyTorch")
    newest = f"{installed[0]}.{installed[1]}"
    if not _REQUEST.fullmatch(requested):
        yield Problem(
            id="malformed-stable-abi",
            what=f"stable_abi = {requested!r} is not a release of PyTorch",
            remedy="write the oldest release that the extension must run with, as in "
            f"stable_abi = {_near(requested, oldest)!r}",
            why="functions are added to the stable ABI with minor releases, so it is major.minor",
            origin=origin,
        )
    elif numbers(requested) < numbers(oldest):
        yield Problem(
            id="stable-abi-too-old",
            what=f"stable_abi = {requested!r}: no extension can be made for the stable ABI of PyTorch {requested}",
            remedy=f"ask for {oldest!r} or later",
            why=f"PyTorch's headers tell what a release has from {oldest} on",
            origin=origin,
        )
    elif numbers(requested) > installed:
        yield Problem(
            id="stable-abi-too-new",
            what=f"stable_abi = {requested!r} is newer than the PyTorch {torch_version} to build with",
            remedy=f"ask for {newest!r} or older, or build with PyTorch {requested} or later "
            f"(build-system.requires: 'torch>={requested}')",
            why="its headers lack what later releases have, and those before 2.15 compile such a request silently",
            origin=origin,
        )


def _near(requested: str, oldest: str) -> str:
    """The release that a malformed request seems to mean: ``2.10`` for ``v2.10.1``."""
    found = re.search(r"\d+\.\d+", requested, re.ASCII)
    return found[0] if found and numbers(found[0]) >= numbers(oldest) else oldest
