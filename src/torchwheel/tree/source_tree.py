"""The description of a source tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Generation(Enum):
    """The build system of a PyTorch tree."""

    SCIKIT_BUILD_CORE = "scikit-build-core"
    """PyTorch 2.14 and later."""
    SETUP_PY = "setup.py"
    """PyTorch up to 2.13."""


@dataclass(frozen=True)
class Option:
    """One CMake cache entry that the tree declares for its users to set.

    Attributes:
        default: as written, so it may refer to variables: ``${CPU_INTEL}``.
        depends: the condition of a ``cmake_dependent_option``, as written (``;`` means and); if it is false the
            option is forced to its other value. Empty if the option can always be set.
    """

    name: str
    type: str
    description: str
    default: str
    depends: str
    file: str
    line: int


@dataclass(frozen=True)
class Tree:
    """A PyTorch source tree.

    Attributes:
        backend: its own build backend, even if torchwheel was adopted: ``setuptools.build_meta``.
        known_names: every identifier in its CMake files; any other define has no effect.
        minimum_cuda: the oldest CUDA that its CMake files accept: ``11.0``; None if they set no limit.
        old_projects: the projects below third_party that CMake 4 refuses; None if their sources are missing.
        release_tag: the release tag on that commit, ``v2.6.0``; release candidates do not count.
        commit_unknown: why git failed to read the commit or its tags; empty if it did not.
        missing_submodules: the folders of submodules that are absent or empty, relative, with ``/``.
        identity: a hash of the checkout's path, shared by every sdist made of it, wherever that is unpacked.
    """

    root: Path
    name: str
    version_text: str
    generation: Generation
    backend: str
    backend_path: tuple[str, ...]
    requires: tuple[str, ...]
    options: Mapping[str, Option]
    known_names: frozenset[str]
    minimum_cuda: str | None = None
    minimum_cmake: str | None = None
    old_projects: tuple[str, ...] | None = None
    commit: str | None = None
    release_tag: str | None = None
    commit_unknown: str = ""
    dirty: bool = False
    missing_submodules: tuple[str, ...] = ()
    adopted: bool = False
    identity: str = ""
    version_file: str = "version.txt"
