"""What is known of PyTorch's stable ABI and of Python's, from the data files of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.hardware._data_file import DataErrors
from torchwheel.versions import at_least

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class StableAbiRules:
    """What an extension for PyTorch's stable ABI may not use.

    Attributes:
        oldest: the oldest release that can be asked for.
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
        newest: the newest release that is known.
    """

    since: Mapping[str, str]
    newest: str

    def lacks(self, symbol: str, release: str) -> bool:
        """Whether a release lacks a symbol; a release that is not known yet lacks only what nobody has yet."""
        first = self.since.get(symbol)
        if first is None:
            return at_least(self.newest, release)
        return not at_least(release, first)


@cache
def stable_abi_rules() -> StableAbiRules:
    """The shipped rules.

    Raises:
        TorchwheelError: the data file is malformed.
    """
    return read_rules(_FOLDER / "stable_abi.toml")


@cache
def shim_functions() -> SymbolHistory:
    """The functions of PyTorch's stable C interface.

    Raises:
        TorchwheelError: the data file is malformed.
    """
    return read_history(_FOLDER / "shim_functions.toml", "release", "functions")


@cache
def python_symbols() -> SymbolHistory:
    """The symbols of Python's stable ABI.

    Raises:
        TorchwheelError: the data file is malformed.
    """
    return read_history(_FOLDER / "python_stable_abi.toml", "added", "symbols")


def read_rules(path: Path) -> StableAbiRules:
    """Read a file of rules.

    Raises:
        TorchwheelError: it is malformed.
    """
    tables = read_toml(path)
    errors = DataErrors(str(path))
    known = frozenset({"target", "unstable", "header-only"})
    errors.unknown_keys(tables, known, "the file")
    target, unstable, header_only = (
        errors.field(tables, key, dict, "the file") for key in ("target", "unstable", "header-only")
    )
    for name, table in (("target", target), ("unstable", unstable), ("header-only", header_only)):
        _check_source(table, name, errors)
    oldest = errors.field(target, "oldest", str, "target")
    rules = StableAbiRules(
        oldest=oldest,
        namespaces=errors.strings(unstable, "namespaces", "unstable"),
        prefixes=errors.strings(unstable, "prefixes", "unstable"),
        header_only=errors.strings(header_only, "types", "header-only"),
    )
    errors.raise_if_any()
    return rules


def read_history(path: Path, table: str, key: str) -> SymbolHistory:
    """Read a file that lists symbols by the release that added them, oldest first.

    Args:
        path: the file.
        table: name of its tables, one for each release.
        key: where a table has the symbols.

    Raises:
        TorchwheelError: it is malformed.
    """
    document = read_toml(path)
    errors = DataErrors(str(path))
    since: dict[str, str] = {}
    newest = "0.0"
    for row in errors.field(document, table, list, "the file"):
        version = errors.field(row, "version", str, table)
        if at_least(newest, version):
            errors.add(f"{table} {version!r}: releases are sorted, and each is there once")
            continue
        newest = version
        _check_source({**document, **row}, f"{table} {version}", errors)
        for symbol in errors.strings(row, key, f"{table} {version}"):
            if symbol in since:
                errors.add(f"{table} {version}: {symbol} is there since {since[symbol]}")
            since.setdefault(symbol, version)
    errors.raise_if_any()
    return SymbolHistory(since, newest)


def _check_source(row: Mapping[str, Any], entry: str, errors: DataErrors) -> None:
    source = errors.field(row, "source", str, entry)
    if source and not source.startswith(("https://", "PyPI: ")):
        errors.add(f"{entry}: {source!r} is no source", "give a link, or 'PyPI: ' and what was read there")
