"""Reading the shipped lists of this room: tables of one kind, each with the document that it stands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from torchwheel._toml import read_toml
from torchwheel.hardware._data_file import DataErrors

T = TypeVar("T")


def sourced_rows(
    path: Path,
    kind: str,
    keys: frozenset[str],
    named_by: str,
    make: Callable[[Mapping[str, Any], str, DataErrors], T],
) -> tuple[T, ...]:
    """What ``make`` makes of each ``[[kind]]`` table of a file, in the file's order.

    ``make`` takes the table, the name to report it under (the kind and what is under ``named_by``), and where
    to report to. Besides ``keys``, each table has a ``source``.

    Raises:
        TorchwheelError: the file is unreadable, or tables are wrong; all of them are named.
    """
    errors = DataErrors(str(path))
    found = []
    for row in read_toml(path).get(kind, []):
        entry = f"{kind} {row.get(named_by)!r}"
        errors.unknown_keys(row, keys | {"source"}, entry)
        errors.field(row, "source", str, entry)
        found.append(make(row, entry, errors))
    errors.raise_if_any()
    return tuple(found)
