"""Every PyTorch release since 2.0: toolkits and compilers that build it, and its CMake options (TOML files)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from torchwheel.system.toml import shipped_toml
from torchwheel.versions import at_least, major_minor, parse_numbers

_FOLDER = Path(__file__).parent

COMPILERS = ("gcc", "clang", "msvc")
"""Compiler kinds, as in a host's description."""
CMAKE_OPT_OUT = "CMAKE_POLICY_VERSION_MINIMUM"
"""The variable that makes CMake 4 accept projects that require a CMake older than 3.5."""


_CMAKE_WITHOUT_OLD = "4"
"""The first CMake that refuses projects which require a CMake older than 3.5."""


class CudaSupport(Enum):
    """The support of a CUDA toolkit by a release."""

    ACCEPTED = "accepted"
    """Between the tree's minimum and the newest that it was built with."""
    TOO_OLD = "too-old"
    """The tree's CMake refuses it."""
    FAILS = "fails"
    """Newer than the tree supports, and known not to compile."""
    UNTRIED = "untried"
    """Newer than any known build of the release."""
    UNKNOWN = "unknown"
    """The release is unknown, or the tree's own CMake files disagree with the table."""


@dataclass(frozen=True)
class CudaRange:
    """The CUDA toolkits to build a release with.

    Attributes:
        before_turing: the one that PyTorch itself tests for GPUs before Turing where no official build is for these;
            None elsewhere.
    """

    minimum: str
    newest: str
    fails_from: str | None
    before_turing: str | None = None


class CudnnRange(NamedTuple):
    minimum: str
    newest_major: int


@dataclass(frozen=True)
class CompilerNeed:
    """The minimum version of a compiler for a release.

    Attributes:
        version: ``11.3``; for Visual C++ its compiler's, ``19.29`` for Visual Studio 2019 16.11.
        cxx_standard: the C++ standard that requires it; None if the release itself states it.
    """

    version: str
    cxx_standard: int | None


@dataclass(frozen=True)
class Compilers:
    """The compilers for a release: its C++ standard, and the versions that it states itself, by kind."""

    cxx_standard: int
    stated: Mapping[str, str] = field(hash=False)

    def minimum_version(self, compiler: str) -> CompilerNeed | None:
        """Return the minimum version of a compiler kind; None for an unknown kind.

        It is the release's own minimum, unless the first compiler with its C++ standard is newer.
        """
        stated = self.stated.get(compiler)
        first = cxx_supports().get((self.cxx_standard, compiler))
        if first is not None and (stated is None or not at_least(stated, first)):
            return CompilerNeed(first, self.cxx_standard)
        return None if stated is None else CompilerNeed(stated, None)


@dataclass(frozen=True)
class PytorchRelease:
    """One release of PyTorch; the releases of a minor version differ only in their published builds."""

    version: str
    requires_python: str
    cuda: CudaRange
    cudnn: CudnnRange
    compilers: Compilers
    cmake_below: str | None = None
    python_fails_from: str | None = None

    @property
    def minor_version(self) -> str:
        """``2.14`` of 2.14.1."""
        return major_minor(self.version)

    def cuda_accepts(self, version: str) -> CudaSupport:
        """Return the support of a CUDA toolkit, ``12.9`` or ``12.9.86``, by this release."""
        version = major_minor(version)
        if not parse_numbers(version):
            return CudaSupport.UNKNOWN
        if self.cuda.fails_from is not None and at_least(version, self.cuda.fails_from):
            return CudaSupport.FAILS
        if not at_least(self.cuda.newest, version):
            return CudaSupport.UNTRIED
        return CudaSupport.ACCEPTED if at_least(version, self.cuda.minimum) else CudaSupport.TOO_OLD

    def lacks_option(self, name: str) -> bool:
        """Whether this release is known to lack a CMake option, or no release has it."""
        option = build_options().get(name)
        return option is None or option.is_lacked_by(self.version)


@dataclass(frozen=True)
class ReleaseCatalogue:
    """The known releases, oldest first."""

    by_version: Mapping[str, PytorchRelease]

    def release(self, version: str) -> PytorchRelease | None:
        """Return the release that a version belongs to, or the nearest of its minor version; None if there is none.

        ``2.14.1+cu130`` and ``2.14.1a0`` are 2.14.1; ``2.14`` is the last release of 2.14.
        """
        nearest = _nearest_patch(version, self.by_version)
        return None if nearest is None else self.by_version[nearest]

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(self.by_version)

    def __iter__(self) -> Iterator[PytorchRelease]:
        return iter(self.by_version.values())


@cache
def read_releases() -> ReleaseCatalogue:
    data = shipped_toml(_FOLDER / "releases.toml")
    found = (_read_release(data, row, patch) for row in data["releases"] for patch in row["patches"])
    return ReleaseCatalogue({release.version: release for release in found})


def nvcc_bug(cuda: str, system: str) -> Mapping[str, str] | None:
    """The known bug of a CUDA release, ``12.9``, on a system, ``Windows``, as the table has it; None for none."""
    rows: Iterable[Mapping[str, str]] = shipped_toml(_FOLDER / "releases.toml")["nvcc-bug"]
    wanted = (major_minor(cuda), system)
    return next((row for row in rows if (row["cuda"], row["system"]) == wanted), None)


@cache
def cxx_supports() -> Mapping[tuple[int, str], str]:
    """The first compiler versions with a C++ standard: ``(17, "gcc")`` to ``7``."""
    rows = shipped_toml(_FOLDER / "cxx_standards.toml")["supports"]
    return {(row["standard"], row["compiler"]): row["minimum"] for row in rows}


def _read_release(data: Mapping[str, Any], row: Mapping[str, Any], patch: int) -> PytorchRelease:
    cuda, cudnn, compilers = (
        [entry for entry in data[table] if at_least(row["version"], entry["since"])][-1]
        for table in ("cuda", "cudnn", "compilers")
    )
    stated = {kind: compilers[kind] for kind in COMPILERS if kind in compilers}
    return PytorchRelease(
        version=f"{row['version']}.{patch}",
        requires_python=row["requires-python"],
        cuda=CudaRange(cuda["minimum"], cuda["newest"], cuda.get("fails-from"), cuda.get("before-turing")),
        cudnn=CudnnRange(cudnn["minimum"], cudnn["newest-major"]),
        compilers=Compilers(compilers["cxx-standard"], stated),
        cmake_below=row.get("cmake-below"),
        python_fails_from=row.get("python-fails-from"),
    )


def _nearest_patch(version: str, known: Iterable[str]) -> str | None:
    """Find the nearest known release of a version's minor version.

    That is the last one not later than it (``2.14`` alone means the last one), else the first; None if no release of
    that minor version is known.
    """
    wanted = parse_numbers(version)
    if len(wanted) < 2:
        return None
    patches = sorted(number[2] for number in map(parse_numbers, known) if number[:2] == wanted[:2])
    not_later = [patch for patch in patches if len(wanted) == 2 or patch <= wanted[2]]
    return f"{wanted[0]}.{wanted[1]}.{not_later[-1] if not_later else patches[0]}" if patches else None


def cmake_below(version: str, old_projects: Sequence[str] | None) -> str | None:
    """Return the first CMake that is too new for a tree; None for none.

    The tree itself decides, because a development version such as 2.7.0a0 may or may not have a change of 2.7.

    Args:
        old_projects: the projects in the tree that CMake 4 refuses; None if their sources are missing, and the
            table of releases decides.
    """
    if old_projects is not None:
        return _CMAKE_WITHOUT_OLD if old_projects else None
    release = read_releases().release(version)
    return release.cmake_below if release is not None else None


def bounded_requires(
    requires: tuple[str, ...], below: str | None, variables: Container[str]
) -> tuple[str, ...]:
    """Return the build requirements of a tree, limited to the CMake versions that it supports.

    Trees up to 2.6 require ``cmake`` without an upper bound, and pip would install CMake 4.
    """
    if below is None or CMAKE_OPT_OUT in variables:
        return requires
    return tuple(_exclude_from(below, text) for text in requires)


def _exclude_from(version: str, text: str) -> str:
    requirement = Requirement(text)
    allows = requirement.url is None and requirement.specifier.contains(version, prereleases=True)
    if requirement.name.lower() != "cmake" or not allows:
        return text
    requirement.specifier &= SpecifierSet(f"<{version}")
    return str(requirement)


@dataclass(frozen=True)
class BuildOption:
    """One CMake option.

    Attributes:
        first, last: the minor versions known to have it, from and to.
        lacked_to: the last minor version known not to have it yet; None if there is none.
        lacked_from: the first minor version known to have dropped it; None if there is none.
        unconditional: whether releases that dropped it always build its part.
        labelled: whether the wheel's label names it where it differs from the tree's default.
        partial: the value with which the wheel is not PyTorch's whole one; None if there is none.
    """

    name: str
    first: str
    last: str
    since: str | None
    until: str | None
    lacked_to: str | None
    lacked_from: str | None
    instead: str = ""
    unconditional: bool = False
    labelled: bool = True
    partial: bool | None = None
    makes: str = ""

    def is_lacked_by(self, version: str) -> bool:
        """Whether a release is known to lack the option; a release between two known trees may be undecided."""
        minor = parse_numbers(version, 2)
        is_yet_to_come = (self.since is not None and minor < parse_numbers(self.since, 2)) or (
            self.lacked_to is not None and minor <= parse_numbers(self.lacked_to, 2)
        )
        is_gone = (self.until is not None and minor > parse_numbers(self.until, 2)) or (
            self.lacked_from is not None and minor >= parse_numbers(self.lacked_from, 2)
        )
        return is_yet_to_come or is_gone


@cache
def build_options() -> Mapping[str, BuildOption]:
    """Read the CMake options that torchwheel knows, by name in alphabetical order.

    A tree declares its own options; this is for builds without a tree, and for options of newer or older releases.
    """
    data = shipped_toml(_FOLDER / "options.toml")
    trees = {row["version"]: row.get("early", False) for row in data["trees"]}
    found = {name: _read_option(name, row, trees) for row in data["option"] for name in row["names"]}
    return dict(sorted(found.items()))


def _read_option(name: str, row: Mapping[str, Any], is_early: Mapping[str, bool]) -> BuildOption:
    since, until = row.get("since"), row.get("until")
    having = sorted(filter(None, (*row.get("seen", ()), since, until)), key=parse_numbers)
    lacking = sorted(row.get("absent", ()), key=parse_numbers)
    earlier = [version for version in lacking if parse_numbers(version) < parse_numbers(having[0])]
    later = [version for version in lacking if parse_numbers(version) > parse_numbers(having[-1])]
    lacked_to = earlier[-1] if earlier else None
    if lacked_to is not None and is_early[lacked_to]:
        # The tree is older than that version's branch, so what it lacks may have come with that version.
        major, minor = parse_numbers(lacked_to, 2)
        lacked_to = f"{major}.{minor - 1}"
    more = {
        key: row[key] for key in ("instead", "unconditional", "labelled", "partial", "makes") if key in row
    }
    lacked_from = later[0] if later else None
    return BuildOption(name, having[0], having[-1], since, until, lacked_to, lacked_from, **more)
