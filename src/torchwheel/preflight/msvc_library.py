"""Which CUDA the headers of MSVC's standard library accept: ``msvc_library.toml``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from torchwheel._dataclass import dataclass
from torchwheel._toml import read_toml
from torchwheel.hardware._data_file import DataErrors

_FILE = Path(__file__).with_name("msvc_library.toml")
_KEYS = frozenset({"msvc", "cuda", "source"})


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
    errors = DataErrors(str(_FILE))
    found = []
    for row in read_toml(_FILE).get("library", []):
        entry = f"library {row.get('msvc')!r}"
        errors.unknown_keys(row, _KEYS, entry)
        errors.field(row, "source", str, entry)
        found.append(
            MsvcLibrary(errors.field(row, "msvc", str, entry), errors.field(row, "cuda", str, entry))
        )
    errors.raise_if_any()
    return tuple(found)
