"""What a shared library takes from others: the libraries it names, and the symbols it leaves undefined."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from torchwheel.versions import numbers


class LibraryFormat(Enum):
    """A format of shared libraries."""

    ELF = "ELF"
    PE = "PE"


@dataclass(frozen=True)
class ImportedSymbol:
    """A symbol that the loader has to find in another library.

    Attributes:
        name: as stored, mangled where C++ is; ``#7`` for number 7 of a DLL.
        library: the library that must have it, ``KERNEL32.dll``; empty in ELF files, which leave it open.
        version: the version that it must have there, ``GLIBC_2.34``; empty for any.
    """

    name: str
    library: str = ""
    version: str = ""


@dataclass(frozen=True)
class NeededVersion:
    """A symbol version that a library must have, or an ELF file that names it is not loaded."""

    library: str
    version: str


@dataclass(frozen=True)
class Linkage:
    """What a shared library takes from others.

    Attributes:
        format: its file format.
        libraries: the libraries it names, in order: ``libc10.so``, ``KERNEL32.dll``.
        imports: the symbols it takes from others, in order.
        versions: the symbol versions that others must have; none in PE files.
    """

    format: LibraryFormat
    libraries: tuple[str, ...]
    imports: tuple[ImportedSymbol, ...]
    versions: tuple[NeededVersion, ...] = ()

    def newest_versions(self) -> dict[str, str]:
        """The newest version of each series that it needs: ``{"GLIBC": "2.34", "GLIBCXX": "3.4.29"}``."""
        newest: dict[str, str] = {}
        for needed in self.versions:
            series, _, number = needed.version.rpartition("_")
            # Versions without a number, GLIBC_PRIVATE for one, have no order.
            if series and all(part.isdecimal() for part in number.split(".")):
                newest[series] = max(newest.get(series, "0"), number, key=numbers)
        return newest
