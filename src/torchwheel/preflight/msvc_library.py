"""Which CUDA the headers of MSVC's standard library accept: ``msvc_library.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.hardware._data_file import DataErrors
from torchwheel.preflight.sourced_rows import sourced_rows

_FILE = Path(__file__).with_name("msvc_library.toml")
_KEYS = frozenset({"msvc", "cuda"})


@dataclass(frozen=True)
class MsvcLibrary:
    """The requirement of one span of MSVC's versions.

    Attributes:
        msvc: the first compiler version, ``19.41``.
        cuda: the oldest CUDA release from there on, ``12.4``.
    """

    msvc: str
    cuda: str

    @property
    def toolset(self) -> str:
        """The toolset of that compiler: 14.41 brings 19.41.

        Source: https://learn.microsoft.com/cpp/overview/compiler-versions
        """
        return f"14.{self.msvc.split('.')[1]}"


@cache
def msvc_libraries() -> tuple[MsvcLibrary, ...]:
    """The shipped list, newest first.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    return sourced_rows(_FILE, "library", _KEYS, "msvc", _library)


def _library(row: Mapping[str, Any], entry: str, errors: DataErrors) -> MsvcLibrary:
    return MsvcLibrary(errors.field(row, "msvc", str, entry), errors.field(row, "cuda", str, entry))
