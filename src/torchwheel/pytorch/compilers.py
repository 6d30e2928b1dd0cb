"""What compiles a release: its own least compilers, and the first that know its C++ standard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.hardware._data_file import DataErrors
from torchwheel.pytorch._data_fields import read_number, read_source
from torchwheel.versions import at_least

COMPILERS = ("gcc", "clang", "msvc")
"""Kinds of compilers, as a host names them."""

_FILE = Path(__file__).with_name("cxx_standards.toml")
_SUPPORT_KEYS = frozenset({"standard", "compiler", "minimum", "source"})
_COMPILERS_KEYS = frozenset({"cxx-standard", *COMPILERS, "not-stated", "note", "source"})

Supports = Mapping[tuple[int, str], str]
"""(17, "gcc") to the first version of GCC that knows C++17."""


@dataclass(frozen=True)
class CompilerNeed:
    """The least version of a compiler for a release.

    Attributes:
        version: ``11.3``; of Visual C++ that of its compiler, ``19.29`` for Visual Studio 2019 16.11.
        cxx_standard: the C++ standard that asks for it, None if the release itself states it.
    """

    version: str
    cxx_standard: int | None


@dataclass(frozen=True)
class Compilers:
    """What compiles a release.

    Attributes:
        cxx_standard: the C++ standard of its sources, 17 or 20.
        gcc: the least version of GCC that the release itself states, None if it states none.
        clang: the same of Clang.
        msvc: the same of Visual C++'s compiler, ``19.20`` for Visual Studio 2019.
        source: the document that says so.
    """

    cxx_standard: int
    gcc: str | None
    clang: str | None
    msvc: str | None
    source: str

    def needed(self, compiler: str) -> CompilerNeed | None:
        """The least version of a kind of compiler; None of a kind that nothing is known of.

        What a release states counts unless the first compiler that knows its C++ standard is newer.
        """
        stated = {"gcc": self.gcc, "clang": self.clang, "msvc": self.msvc}.get(compiler)
        first = cxx_supports().get((self.cxx_standard, compiler))
        if first is not None and (stated is None or not at_least(stated, first)):
            return CompilerNeed(first, self.cxx_standard)
        return None if stated is None else CompilerNeed(stated, None)


@cache
def cxx_supports() -> Supports:
    """The C++ standards that torchwheel ships knowledge of."""
    return load_cxx_supports(_FILE)


def load_cxx_supports(path: Path) -> Supports:
    """Read and check a file like `cxx_standards.toml`.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    errors = DataErrors(str(path))
    found: dict[tuple[int, str], str] = {}
    for row in read_toml(path).get("support", []):
        entry = f"C++{row.get('standard')} in {row.get('compiler')!r}"
        errors.unknown_keys(row, _SUPPORT_KEYS, entry)
        standard = errors.field(row, "standard", int, entry)
        compiler = errors.field(row, "compiler", str, entry)
        minimum = read_number(row, "minimum", entry, errors)
        read_source(row, entry, errors)
        if compiler not in COMPILERS:
            errors.add(f"{entry}: there is no such compiler", f"use one of {', '.join(COMPILERS)}")
        elif (standard, compiler) in found:
            errors.add(f"{entry}: is there twice", "leave one out")
        elif minimum is None:
            errors.add(f"{entry}: 'minimum' is missing", "name the first version that knows the standard")
        else:
            found[standard, compiler] = minimum
    _check_standards(found, errors)
    errors.raise_if_any()
    return found


def _check_standards(found: Supports, errors: DataErrors) -> None:
    """Every standard has all compilers: a release may then leave any of them out."""
    for standard in sorted({standard for standard, _ in found}):
        missing = [compiler for compiler in COMPILERS if (standard, compiler) not in found]
        if missing:
            errors.add(f"C++{standard}: nothing is said of {', '.join(missing)}", "add an entry for each")
    if not found:
        errors.add("there is no C++ standard")


def read_compilers(release: Mapping[str, Any], entry: str, errors: DataErrors) -> Compilers:
    """The ``compilers`` table of a release: each compiler has a version there, or is among ``not-stated``."""
    row = errors.field(release, "compilers", dict, entry)
    if not row:
        return Compilers(0, None, None, None, "")
    entry = f"{entry}, compilers"
    errors.unknown_keys(row, _COMPILERS_KEYS, entry)
    not_stated = errors.strings(row, "not-stated", entry)
    gcc, clang, msvc = (read_number(row, compiler, entry, errors) for compiler in COMPILERS)
    for compiler in (*COMPILERS, *(name for name in not_stated if name not in COMPILERS)):
        if (compiler in row) is (compiler in not_stated) or compiler not in COMPILERS:
            errors.add(
                f"{entry}: {compiler!r} must have a version or be among 'not-stated'",
                f"say either, of each of {', '.join(COMPILERS)}",
            )
    standard = errors.field(row, "cxx-standard", int, entry)
    if standard and (standard, "gcc") not in cxx_supports():
        errors.add(f"{entry}: C++{standard} is in no entry of cxx_standards.toml", "add it there")
    return Compilers(standard, gcc, clang, msvc, read_source(row, entry, errors))
