"""Reading the fields of a shipped data file, so that a wrong entry is reported by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.architecture import Architecture

T = TypeVar("T")


class DataErrors:
    """Collects what is wrong in one data file; ``raise_if_any`` reports all of it at once."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._problems: list[Problem] = []

    def add(self, what: str, remedy: str = "correct that entry") -> None:
        """Note one thing that is wrong with the file."""
        self._problems.append(Problem(id="malformed-data", what=what, remedy=remedy, origin=self._origin))

    def field(
        self, row: Mapping[str, Any], key: str, kind: type[T], entry: str, default: T | None = None
    ) -> T:
        """The value of ``key``, a ``kind`` that is not empty unless there is a default.

        If it is wrong, that is noted, and an empty one is returned.
        """
        value = row.get(key, default)
        if isinstance(value, kind) and (value or default is not None):
            return value
        found = repr(value) if key in row else "nothing"
        self.add(f"{entry}: {key!r} must be a {kind.__name__} that is not empty, and is {found}")
        return kind()

    def strings(self, row: Mapping[str, Any], key: str, entry: str) -> tuple[str, ...]:
        """The list of strings under ``key``, empty if there is none."""
        values = self.field(row, key, list, entry, default=[])
        if not all(isinstance(value, str) for value in values):
            self.add(f"{entry}: {key!r} must be a list of strings, and is {values!r}")
            return ()
        return tuple(values)

    def architecture(self, text: str, entry: str) -> Architecture:
        """The architecture that ``text`` spells with a dot."""
        architecture = Architecture.from_dotted(text)
        if architecture is None:
            self.add(f"{entry}: {text!r} is no compute capability", "write it as in '12.0'")
            return Architecture(0, 0)
        return architecture

    def unknown_keys(self, row: Mapping[str, Any], known: frozenset[str], entry: str) -> None:
        """Note every key of ``row`` that is not ``known``."""
        for key in sorted(row.keys() - known):
            self.add(f"{entry}: unknown key {key!r}", f"use only {', '.join(sorted(known))}")

    def raise_if_any(self) -> None:
        """Raises:
        TorchwheelError: with every problem that was noted.
        """
        if self._problems:
            raise TorchwheelError(self._problems)
