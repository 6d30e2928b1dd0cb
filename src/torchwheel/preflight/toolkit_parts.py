"""The parts of a CUDA toolkit that a build may need: ``toolkit_parts.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.hardware._data_file import DataErrors
from torchwheel.preflight.sourced_rows import sourced_rows

_FILE = Path(__file__).with_name("toolkit_parts.toml")
_KEYS = frozenset({"name", "header", "library", "mentioned"})


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        name: NVIDIA's name for it.
        header: the header that it must have, relative to an include folder; empty for none.
        library: the library to link with, without prefix and suffix; empty for none.
        mentioned: a tree whose CMake files use one of these identifiers needs the part; empty: every tree.
    """

    name: str
    header: str
    library: str
    mentioned: tuple[str, ...]

    @property
    def always(self) -> bool:
        """Whether every tree needs it."""
        return not self.mentioned

    def library_file(self, system: str) -> str:
        """The library's file on a platform; empty for none."""
        if not self.library:
            return ""
        return f"{self.library}.lib" if system == "Windows" else f"lib{self.library}.so"


@cache
def toolkit_parts() -> tuple[Part, ...]:
    """The shipped list."""
    return load_parts(_FILE)


def load_parts(path: Path) -> tuple[Part, ...]:
    """Read and check a list of parts.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    return sourced_rows(path, "part", _KEYS, "name", _part)


def _part(row: Mapping[str, Any], entry: str, errors: DataErrors) -> Part:
    part = Part(
        name=errors.field(row, "name", str, entry),
        header=errors.field(row, "header", str, entry, default=""),
        library=errors.field(row, "library", str, entry, default=""),
        mentioned=errors.strings(row, "mentioned", entry),
    )
    if not (part.header or part.library):
        errors.add(f"{entry}: has neither 'header' nor 'library'", "say by what file it is recognised")
    return part
