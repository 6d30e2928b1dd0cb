"""The description of a source tree, and its build system: generation, backend and build requirements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import Problem, refusal, stop_on
from torchwheel.system.paths import exists
from torchwheel.system.toml import read_toml
from torchwheel.versions import malformed_requirements


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


@dataclass(frozen=True, kw_only=True)
class Declarations:
    """The declarations in a tree's CMake files.

    Attributes:
        known_names: every identifier in them; any other define has no effect.
        minimum_cuda: the oldest CUDA that they accept: ``11.0``; None if they set no limit.
        old_projects: the projects below third_party that CMake 4 refuses; None if their sources are missing.
    """

    options: Mapping[str, Option]
    known_names: frozenset[str]
    minimum_cuda: str | None = None
    minimum_cmake: str | None = None
    old_projects: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class BuildSystem:
    """The tree's own build system, as it was before any adoption.

    Attributes:
        backend: its own build backend, even if torchwheel was adopted: ``setuptools.build_meta``.
    """

    name: str
    generation: Generation
    backend: str
    backend_path: tuple[str, ...]
    requires: tuple[str, ...]
    adopted: bool = False


@dataclass(frozen=True, kw_only=True)
class Tree(Declarations, BuildSystem):
    """A PyTorch source tree.

    Attributes:
        release_tag: the release tag on that commit, ``v2.6.0``; release candidates do not count.
        commit_unknown: why git failed to read the commit or its tags; empty if it did not.
        missing_submodules: the folders of submodules that are absent or empty, relative, with ``/``.
        identity: a hash of the checkout's path, shared by every sdist made of it, wherever that is unpacked.
    """

    root: Path
    version_text: str
    commit: str | None = None
    release_tag: str | None = None
    commit_unknown: str = ""
    dirty: bool = False
    missing_submodules: tuple[str, ...] = ()
    identity: str = ""
    version_file: str = "version.txt"


SHIM_BACKEND = "torchwheel_shim"
"""``build-backend`` of an adopted tree: the module that ``torchwheel adopt`` puts into backend/."""

LEGACY_BACKEND = "setuptools.build_meta:__legacy__"
"""PEP 517's default without a ``build-backend``."""
LEGACY_REQUIRES = ("setuptools>=40.8.0",)
"""The requirements that pip and build install for a project without a ``[build-system]`` table."""

_GENERATIONS = {
    "scikit_build_core.build": Generation.SCIKIT_BUILD_CORE,
    "setuptools.build_meta": Generation.SETUP_PY,
    LEGACY_BACKEND: Generation.SETUP_PY,
}


def read_pyproject(root: Path) -> dict[str, Any]:
    """The tree's pyproject.toml; empty when there is none."""
    path = root / "pyproject.toml"
    return read_toml(path) if exists(path) else {}


def read_build_system(root: Path) -> BuildSystem:
    """Read the tree's build system from pyproject.toml and setup.py."""
    pyproject = read_pyproject(root)
    table = get_subtable(pyproject, "build-system")
    adopted = is_adopted(pyproject)
    own = adopted_table(pyproject) if adopted else table
    if own is None:
        raise refusal("damaged-adoption", origin=root / "pyproject.toml", shim=SHIM_BACKEND)
    backend, backend_path = own.get("build-backend", LEGACY_BACKEND), own.get("backend-path", [])
    requires = table.get("requires", list(LEGACY_REQUIRES))
    problems = [*_ill_typed(root, backend, backend_path), *ill_formed_requires(root, requires)]
    if not problems and backend not in _GENERATIONS:
        problems = [
            Problem.of(
                "unsupported-backend",
                origin=root / "pyproject.toml",
                backend=backend,
                backends=", ".join(_GENERATIONS),
            )
        ]
    stop_on(problems)
    return BuildSystem(
        name=str(get_subtable(pyproject, "project").get("name", "torch")),
        generation=_GENERATIONS[backend],
        backend=backend,
        backend_path=tuple(backend_path),
        requires=tuple(requires),
        adopted=adopted,
    )


def backend_settings(pyproject: Mapping[str, Any]) -> Mapping[str, Any]:
    """scikit-build-core's settings in a tree's pyproject.toml."""
    return get_subtable(get_subtable(pyproject, "tool"), "scikit-build")


def is_adopted(pyproject: Mapping[str, Any]) -> bool:
    """Whether the build backend is torchwheel's shim."""
    return get_subtable(pyproject, "build-system").get("build-backend") == SHIM_BACKEND


def adopted_table(pyproject: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """``[tool.torchwheel.adopted]``, the build system that ``torchwheel adopt`` replaced; None without it."""
    torchwheel = get_subtable(get_subtable(pyproject, "tool"), "torchwheel")
    own = torchwheel.get("adopted")
    return own if isinstance(own, Mapping) else None


def get_subtable(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a table's subtable, from unchecked TOML; empty if it is not a table."""
    value = parent.get(key, {})
    return value if isinstance(value, Mapping) else {}


def _ill_typed(root: Path, backend: object, backend_path: object) -> Iterator[Problem]:
    if not isinstance(backend, str):
        yield _of_another_type(root, "build-backend", backend, "a string")
    if not _is_strings(backend_path):
        yield _of_another_type(root, "backend-path", backend_path, "a list of strings")


def ill_formed_requires(root: Path, requires: Any) -> list[Problem]:
    """Report ``build-system.requires`` that is no list of requirements."""
    if _is_strings(requires):
        return malformed_requirements(requires, str(root / "pyproject.toml"))
    return [_of_another_type(root, "requires", requires, "a list of strings")]


def _of_another_type(root: Path, key: str, value: object, wanted: str) -> Problem:
    origin = root / "pyproject.toml"
    return Problem.of("ill-typed-build-system", origin=origin, key=key, value=value, wanted=wanted)


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
