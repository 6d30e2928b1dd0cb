"""Every PyTorch release from 2.0 on: `releases.toml`, checked on loading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from torchwheel._toml import read_toml
from torchwheel.hardware._data_file import DataErrors
from torchwheel.pytorch._data_fields import read_number, read_source
from torchwheel.pytorch.options import BuildOption, Presence, options
from torchwheel.pytorch.published_table import PublishedBuild, PublishedTable, load_published
from torchwheel.pytorch.version import dotted_number, nearest_patch, release_number

Generation = Literal["setup.py", "scikit-build-core"]

_FILE = Path(__file__).with_name("releases.toml")
_PUBLISHED_FILE = Path(__file__).with_name("published.toml")

_GENERATIONS = ("setup.py", "scikit-build-core")
_RELEASE_KEYS = frozenset(
    {"version", "patches", "generation", "requires-python", "source", "cuda", "cudnn", "compilers", "cmake"}
)
_CUDA_KEYS = frozenset({"minimum", "newest", "fails-from", "note", "source"})
_CUDNN_KEYS = frozenset({"minimum", "newest-major", "source"})
_COMPILERS_KEYS = frozenset({"cxx-standard", "gcc", "clang", "msvc", "note", "source"})
_CMAKE_KEYS = frozenset({"minimum", "source"})


class CudaSupport(Enum):
    """What is known of building a release with a CUDA toolkit."""

    ACCEPTED = "accepted"
    """Not older than the least that the tree takes, not newer than the newest it was built with."""
    TOO_OLD = "too-old"
    """The tree's CMake refuses it."""
    FAILS = "fails"
    """Newer than the tree was made for, and known not to compile."""
    UNTRIED = "untried"
    """Newer than any that the release is known to have been built with."""
    UNKNOWN = "unknown"
    """Older than any that the release was published with; the least that its tree takes is not known."""


@dataclass(frozen=True)
class CudaRange:
    """The CUDA toolkits to build a release with.

    Attributes:
        minimum: the least that the tree's CMake takes, None if that is not known.
        newest: the newest that it is known to have been built with.
        fails_from: the first that is known not to compile it, or None.
        source: the document that says so.
    """

    minimum: str | None
    newest: str
    fails_from: str | None
    source: str


@dataclass(frozen=True)
class CudnnRange:
    """The cuDNN to build a release with: the least version, and the newest major one."""

    minimum: str
    newest_major: int
    source: str


@dataclass(frozen=True)
class Compilers:
    """What compiles a release: the C++ standard of its sources and the least compilers, None where not known.

    Attributes:
        cxx_standard: 17 or 20.
        gcc: least version of GCC.
        clang: least version of Clang.
        msvc: least version of Visual C++'s compiler, ``19.20`` for Visual Studio 2019.
        source: the document that says so.
    """

    cxx_standard: int | None
    gcc: str | None
    clang: str | None
    msvc: str | None
    source: str


@dataclass(frozen=True)
class Release:
    """One release of PyTorch; the releases of a minor version differ only in what was published.

    Attributes:
        version: ``2.14.1``.
        generation: what builds the tree.
        requires_python: the range of Pythons, as in the wheels' metadata.
        cuda: the CUDA toolkits to build it with.
        cudnn: the cuDNN to build it with, None where not known.
        compilers: what compiles it, None where not known.
        cmake_minimum: the least CMake, None where not known.
        source: the release's own page.
    """

    version: str
    generation: Generation
    requires_python: str
    cuda: CudaRange
    cudnn: CudnnRange | None
    compilers: Compilers | None
    cmake_minimum: str | None
    source: str

    @property
    def minor_version(self) -> str:
        """``2.14`` of 2.14.1."""
        return self.version.rpartition(".")[0]

    def published(self, platform_tag: str, python_tag: str) -> tuple[PublishedBuild, ...]:
        """The official builds for a platform (``linux_x86_64``) and a Python (``cp312``, ``cp314t``).

        The build that PyPI has comes first, then the others by CUDA version, newest first, then ``cpu``.
        """
        builds = _published().builds(self.version, platform_tag)
        return tuple(build for build in builds if python_tag in build.python)

    def cuda_accepts(self, version: str) -> CudaSupport:
        """What is known of building this release with a CUDA toolkit, ``12.9`` or ``12.9.86``.

        Raises:
            ValueError: that is no version.
        """
        asked = dotted_number(version)
        if self.cuda.fails_from is not None and asked >= dotted_number(self.cuda.fails_from):
            return CudaSupport.FAILS
        if asked > dotted_number(self.cuda.newest):
            return CudaSupport.UNTRIED
        if self.cuda.minimum is not None:
            return CudaSupport.TOO_OLD if asked < dotted_number(self.cuda.minimum) else CudaSupport.ACCEPTED
        oldest = min(dotted_number(cuda) for cuda in _published().cuda_versions(self.version))
        return CudaSupport.UNKNOWN if asked < oldest else CudaSupport.ACCEPTED

    def option(self, name: str) -> BuildOption | None:
        """The CMake option of that name, None if this release is known not to have it or no release has."""
        option = options().find(name)
        if option is None or option.presence_in(self.version) is Presence.NO:
            return None
        return option


@dataclass(frozen=True)
class ReleaseCatalogue:
    """The known releases, oldest first."""

    by_version: Mapping[str, Release]

    def release(self, version: str) -> Release | None:
        """The release that a version belongs to, or the nearest of its minor version; None if there is none.

        ``2.14.1+cu130`` and ``2.14.1a0`` are 2.14.1; ``2.14`` is the last release of 2.14.
        """
        nearest = nearest_patch(version, self.by_version)
        return None if nearest is None else self.by_version[nearest]

    @property
    def versions(self) -> tuple[str, ...]:
        """The releases' versions, oldest first."""
        return tuple(self.by_version)

    def __iter__(self) -> Iterator[Release]:
        return iter(self.by_version.values())


@cache
def releases() -> ReleaseCatalogue:
    """The releases that torchwheel ships knowledge of."""
    return load_releases(_FILE)


@cache
def _published() -> PublishedTable:
    return load_published(_PUBLISHED_FILE, releases().versions)


def load_releases(path: Path) -> ReleaseCatalogue:
    """Read and check a file like `releases.toml`.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    errors = DataErrors(str(path))
    found: dict[str, Release] = {}
    last = (0, 0, 0)
    for row in read_toml(path).get("release", []):
        entry = f"release {row.get('version')!r}"
        errors.unknown_keys(row, _RELEASE_KEYS, entry)
        for release in _releases(row, entry, errors):
            number = release_number(release.version)
            if number is None:
                errors.add(f"{entry}: this is no version", "write it as in '2.14'")
            elif number <= last:
                errors.add(f"{entry}: {release.version} is out of order", "sort the releases by version")
            else:
                last = number
            found[release.version] = release
    if not found:
        errors.add("there is no release")
    errors.raise_if_any()
    return ReleaseCatalogue(found)


def _releases(row: Mapping[str, Any], entry: str, errors: DataErrors) -> list[Release]:
    minor = errors.field(row, "version", str, entry)
    generation = errors.field(row, "generation", str, entry)
    if generation not in _GENERATIONS:
        errors.add(f"{entry}: 'generation' is {generation!r}", f"use one of {', '.join(_GENERATIONS)}")
    release = Release(
        version=minor,
        generation=cast(Generation, generation),
        requires_python=errors.field(row, "requires-python", str, entry),
        cuda=_cuda(row, entry, errors),
        cudnn=_cudnn(row, entry, errors),
        compilers=_compilers(row, entry, errors),
        cmake_minimum=_cmake_minimum(row, entry, errors),
        source=read_source(row, entry, errors),
    )
    patches = errors.field(row, "patches", list, entry)
    return [replace(release, version=f"{minor}.{patch}") for patch in patches]


def _cuda(release: Mapping[str, Any], entry: str, errors: DataErrors) -> CudaRange:
    row = errors.field(release, "cuda", dict, entry)
    entry = f"{entry}, cuda"
    errors.unknown_keys(row, _CUDA_KEYS, entry)
    newest = read_number(row, "newest", entry, errors)
    if newest is None:
        errors.add(f"{entry}: 'newest' is missing", "name the newest CUDA that the release was built with")
    return CudaRange(
        minimum=read_number(row, "minimum", entry, errors),
        newest=newest or "0",
        fails_from=read_number(row, "fails-from", entry, errors),
        source=read_source(row, entry, errors),
    )


def _cudnn(release: Mapping[str, Any], entry: str, errors: DataErrors) -> CudnnRange | None:
    if "cudnn" not in release:
        return None
    row = errors.field(release, "cudnn", dict, entry)
    entry = f"{entry}, cudnn"
    errors.unknown_keys(row, _CUDNN_KEYS, entry)
    return CudnnRange(
        minimum=errors.field(row, "minimum", str, entry),
        newest_major=errors.field(row, "newest-major", int, entry),
        source=read_source(row, entry, errors),
    )


def _compilers(release: Mapping[str, Any], entry: str, errors: DataErrors) -> Compilers | None:
    if "compilers" not in release:
        return None
    row = errors.field(release, "compilers", dict, entry)
    entry = f"{entry}, compilers"
    errors.unknown_keys(row, _COMPILERS_KEYS, entry)
    return Compilers(
        cxx_standard=errors.field(row, "cxx-standard", int, entry, default=0) or None,
        gcc=read_number(row, "gcc", entry, errors),
        clang=read_number(row, "clang", entry, errors),
        msvc=read_number(row, "msvc", entry, errors),
        source=read_source(row, entry, errors),
    )


def _cmake_minimum(release: Mapping[str, Any], entry: str, errors: DataErrors) -> str | None:
    if "cmake" not in release:
        return None
    row = errors.field(release, "cmake", dict, entry)
    entry = f"{entry}, cmake"
    errors.unknown_keys(row, _CMAKE_KEYS, entry)
    read_source(row, entry, errors)
    return read_number(row, "minimum", entry, errors)
