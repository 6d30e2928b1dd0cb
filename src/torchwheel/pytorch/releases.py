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
from torchwheel.pytorch.compilers import Compilers, read_compilers
from torchwheel.pytorch.options import BuildOption, Presence, options
from torchwheel.pytorch.published_table import PublishedBuild, PublishedTable, load_published
from torchwheel.pytorch.version import nearest_patch
from torchwheel.versions import at_least, major_minor, numbers

Generation = Literal["setup.py", "scikit-build-core"]

_FILE = Path(__file__).with_name("releases.toml")
_PUBLISHED_FILE = Path(__file__).with_name("published.toml")

_GENERATIONS = ("setup.py", "scikit-build-core")
_RELEASE_KEYS = frozenset(
    {"version", "patches", "generation", "requires-python", "source", "cuda", "cudnn", "compilers", "cmake"}
)
_CUDA_KEYS = frozenset({"minimum", "newest", "fails-from", "note", "source"})
_CUDNN_KEYS = frozenset({"minimum", "newest-major", "note", "source"})
_CMAKE_KEYS = frozenset({"minimum", "note", "source"})


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
    """The release is not known, or the tree's own CMake files say otherwise."""


@dataclass(frozen=True)
class CudaRange:
    """The CUDA toolkits to build a release with.

    Attributes:
        minimum: the least that the tree's CMake takes.
        newest: the newest that it is known to have been built with.
        fails_from: the first that is known not to compile it, or None.
        source: the document that says so.
    """

    minimum: str
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
class Release:
    """One release of PyTorch; the releases of a minor version differ only in what was published.

    Attributes:
        version: ``2.14.1``.
        generation: what builds the tree.
        requires_python: the range of Pythons, as in the wheels' metadata.
        cuda: the CUDA toolkits to build it with.
        cudnn: the cuDNN to build it with.
        compilers: what compiles it.
        cmake_minimum: the least CMake.
        source: the release's own page.
    """

    version: str
    generation: Generation
    requires_python: str
    cuda: CudaRange
    cudnn: CudnnRange
    compilers: Compilers
    cmake_minimum: str
    source: str

    @property
    def minor_version(self) -> str:
        """``2.14`` of 2.14.1."""
        return major_minor(self.version)

    def published(self, platform_tag: str, python_tag: str) -> tuple[PublishedBuild, ...]:
        """The official builds for a platform (``linux_x86_64``) and a Python (``cp312``, ``cp314t``).

        The build that PyPI has comes first, then the others by CUDA version, newest first, then ``cpu``.
        """
        builds = _published().builds(self.version, platform_tag)
        return tuple(build for build in builds if python_tag in build.python)

    def cuda_accepts(self, version: str) -> CudaSupport:
        """What is known of building this release with a CUDA toolkit, ``12.9`` or ``12.9.86``."""
        version = major_minor(version)
        if not numbers(version):
            return CudaSupport.UNKNOWN
        if self.cuda.fails_from is not None and at_least(version, self.cuda.fails_from):
            return CudaSupport.FAILS
        if not at_least(self.cuda.newest, version):
            return CudaSupport.UNTRIED
        return CudaSupport.ACCEPTED if at_least(version, self.cuda.minimum) else CudaSupport.TOO_OLD

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
    last: tuple[int, ...] = (0, 0, 0)
    for row in read_toml(path).get("release", []):
        entry = f"release {row.get('version')!r}"
        errors.unknown_keys(row, _RELEASE_KEYS, entry)
        for release in _releases(row, entry, errors):
            number = numbers(release.version, 3)
            if not number:
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
        compilers=read_compilers(row, entry, errors),
        cmake_minimum=_cmake_minimum(row, entry, errors),
        source=read_source(row, entry, errors),
    )
    patches = errors.field(row, "patches", list, entry)
    return [replace(release, version=f"{minor}.{patch}") for patch in patches]


def _cuda(release: Mapping[str, Any], entry: str, errors: DataErrors) -> CudaRange:
    row = errors.field(release, "cuda", dict, entry)
    if not row:
        return CudaRange("0", "0", None, "")
    entry = f"{entry}, cuda"
    errors.unknown_keys(row, _CUDA_KEYS, entry)
    return CudaRange(
        minimum=_required(row, "minimum", "the least CUDA that the tree takes", entry, errors),
        newest=_required(row, "newest", "the newest CUDA that the release was built with", entry, errors),
        fails_from=read_number(row, "fails-from", entry, errors),
        source=read_source(row, entry, errors),
    )


def _cudnn(release: Mapping[str, Any], entry: str, errors: DataErrors) -> CudnnRange:
    row = errors.field(release, "cudnn", dict, entry)
    if not row:
        return CudnnRange("0", 0, "")
    entry = f"{entry}, cudnn"
    errors.unknown_keys(row, _CUDNN_KEYS, entry)
    return CudnnRange(
        minimum=_required(row, "minimum", "the least cuDNN that the tree takes", entry, errors),
        newest_major=errors.field(row, "newest-major", int, entry),
        source=read_source(row, entry, errors),
    )


def _cmake_minimum(release: Mapping[str, Any], entry: str, errors: DataErrors) -> str:
    row = errors.field(release, "cmake", dict, entry)
    if not row:
        return "0"
    entry = f"{entry}, cmake"
    errors.unknown_keys(row, _CMAKE_KEYS, entry)
    read_source(row, entry, errors)
    return _required(row, "minimum", "the least CMake that the tree takes", entry, errors)


def _required(row: Mapping[str, Any], key: str, what: str, entry: str, errors: DataErrors) -> str:
    """A dotted version that every release has; a missing one is noted, and so is one that is none."""
    if key not in row:
        errors.add(f"{entry}: {key!r} is missing", f"name {what}")
    return read_number(row, key, entry, errors) or "0"
