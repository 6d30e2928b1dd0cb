"""A PyTorch source tree: its build system and its git state, or why a path is none."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import Version

from torchwheel.reporting.errors import Problem, TorchwheelError, refusal, stop_on
from torchwheel.reporting.terminal import fields_of, shell_word
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_closed, is_dir, is_file
from torchwheel.system.toml import get_subtable, read_toml
from torchwheel.tree import git
from torchwheel.tree.cmake_options import TOP_FILE, Declarations, read_declarations
from torchwheel.tree.git import Checkout
from torchwheel.versions import malformed_requirements, parse_numbers


class Generation(Enum):
    SCIKIT_BUILD_CORE = "scikit-build-core"
    """PyTorch 2.14 and later."""
    SETUP_PY = "setup.py"
    """PyTorch up to 2.13."""


@dataclass(frozen=True, kw_only=True)
class BuildSystem:
    """The tree's own build system, as it was before any adoption."""

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
    path = root / "pyproject.toml"
    return read_toml(path) if exists(path) else {}


def read_build_system(root: Path) -> BuildSystem:
    pyproject = read_pyproject(root)
    table = get_subtable(pyproject, "build-system")
    adopted = is_adopted(pyproject)
    own = adopted_table(pyproject) if adopted else table
    if own is None:
        raise refusal("damaged-adoption", origin=root / "pyproject.toml", shim=SHIM_BACKEND)
    backend, backend_path = own.get("build-backend", LEGACY_BACKEND), own.get("backend-path", [])
    requires = table.get("requires", list(LEGACY_REQUIRES))
    problems = [*_ill_typed(root, backend, backend_path), *ill_formed_requires(root, requires)]
    stop_on(problems)
    if backend not in _GENERATIONS:
        known = ", ".join(_GENERATIONS)
        raise refusal("unsupported-backend", origin=root / "pyproject.toml", backend=backend, backends=known)
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
    return get_subtable(pyproject, "tool", "scikit-build")


def is_adopted(pyproject: Mapping[str, Any]) -> bool:
    """Whether the build backend is torchwheel's shim."""
    return get_subtable(pyproject, "build-system").get("build-backend") == SHIM_BACKEND


def adopted_table(pyproject: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """``[tool.torchwheel.adopted]``, the build system that ``torchwheel adopt`` replaced; None without it."""
    own = get_subtable(pyproject, "tool", "torchwheel").get("adopted")
    return own if isinstance(own, Mapping) else None


def _ill_typed(root: Path, backend: object, backend_path: object) -> Iterator[Problem]:
    if not isinstance(backend, str):
        yield _of_another_type(root, "build-backend", backend, "a string")
    if not _is_strings(backend_path):
        yield _of_another_type(root, "backend-path", backend_path, "a list of strings")


def ill_formed_requires(root: Path, requires: Any) -> list[Problem]:
    if _is_strings(requires):
        return malformed_requirements(requires, str(root / "pyproject.toml"))
    return [_of_another_type(root, "requires", requires, "a list of strings")]


def _of_another_type(root: Path, key: str, value: object, wanted: str) -> Problem:
    origin = root / "pyproject.toml"
    return Problem.of("ill-typed-build-system", origin=origin, key=key, value=value, wanted=wanted)


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


SOURCE_FACTS_FILE = ".torchwheel-source.json"
"""In an sdist: the git state of the checkout that it was made from."""

_DIGITS = 16
# Of version.txt, because messages quote it several times if it is not a version.
_MOST_CHARACTERS = 500
_VERSION_FILE = "version.txt"
_METADATA = "PKG-INFO"
_METADATA_VERSION = re.compile(r"^Version: (\S{1,100})$", re.MULTILINE)
_MARK_OPTION = "USE_CUDA"


def read_tree(path: Path, origin: str = "") -> Tree:
    """Describe the PyTorch source tree at ``path``, without running or writing anything in it."""
    if problem := _problem_with(path, origin):
        raise TorchwheelError(problem)
    root = path.resolve()
    system = read_build_system(root)
    declarations = read_declarations(root)
    source, identity = read_source(root, *_own_files(adopted=system.adopted))
    version, version_file = _read_version(root)
    # The first with cmake_language(DEFER), for the final values of options.
    minimum = max("3.19", declarations.minimum_cmake or "", key=parse_numbers)
    return Tree(
        root=root,
        version_text=version,
        version_file=version_file,
        **{**vars(system), **vars(declarations), "minimum_cmake": minimum},
        commit=source.commit,
        release_tag=source.release_tag,
        commit_unknown=source.unknown,
        dirty=source.dirty,
        missing_submodules=git.missing_submodules(root),
        identity=identity,
    )


def _read_version(root: Path) -> tuple[str, str]:
    """A tree's version and the name of its file; since 2.9 PKG-INFO, which a release's sdist has, comes first.

    Source: https://github.com/pytorch/pytorch/pull/160315
    """
    script = read_beginning(root / "tools" / "generate_torch_version.py")
    stated = _METADATA_VERSION.search(read_beginning(root / _METADATA)) if _METADATA in script else None
    if stated is not None:
        with suppress(ValueError):
            return Version(stated[1]).public, _METADATA
    return read_beginning(root / _VERSION_FILE).strip()[:_MOST_CHARACTERS], _VERSION_FILE


def source_now(tree: Tree) -> Checkout:
    """Read the tree's checkout again, because it may have changed since the tree was described."""
    return read_source(tree.root, *_own_files(adopted=tree.adopted))[0]


def _own_files(*, adopted: bool) -> tuple[str, ...]:
    """The files that adopting wrote, which do not count as changes of the tree."""
    return ("pyproject.toml", f"*/{SHIM_BACKEND}.*") if adopted else ()


def source_facts_json(
    source: Tree | Checkout, identity: str, states: Mapping[str, SubmoduleState] | None = None
) -> bytes:
    """The content of ``.torchwheel-source.json`` for an sdist of a source with these :func:`submodule_states`."""
    facts = {
        **fields_of(source, "commit", "release_tag", "dirty"),
        "identity": identity,
        **({"submodules": {path: state._asdict() for path, state in states.items()}} if states else {}),
    }
    return (json.dumps(facts, indent=2) + "\n").encode()


def read_source(root: Path, *besides: str) -> tuple[Checkout, str]:
    """Read the checkout from git, else from ``.torchwheel-source.json``, and the identity of :class:`Tree`."""
    here = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
    facts = _recorded_facts(root)
    if facts is None:
        return replace(git.read_checkout(root), dirty=git.is_dirty(root, *besides)), here
    texts = [facts.get(key) for key in ("commit", "release_tag", "identity")]
    dirty = facts.get("dirty", False)
    if not _are_texts_or_none(texts) or not isinstance(dirty, bool):
        raise _malformed_facts(root)
    commit, tag, identity = texts
    return Checkout(commit, tag, dirty), identity or here


class SubmoduleState(NamedTuple):
    """The commit of a submodule, as a full hash, and a tag on it; None if unknown."""

    commit: str | None = None
    tag: str | None = None


def submodule_states(root: Path) -> dict[str, SubmoduleState]:
    """Return the state of each submodule by path, from git, else from ``.torchwheel-source.json``."""
    paths = [submodule.path for submodule in git.read_submodules(root)]
    facts = _recorded_facts(root)
    if facts is None:
        return {one: SubmoduleState(git.head_commit(root / one), git.head_tag(root / one)) for one in paths}
    try:
        recorded = facts.get("submodules", {})
        states = {path: SubmoduleState(**recorded.get(path, {})) for path in paths}
    except (AttributeError, TypeError):
        raise _malformed_facts(root) from None
    if not all(map(_are_texts_or_none, states.values())):
        raise _malformed_facts(root)
    return states


def _are_texts_or_none(values: Iterable[object]) -> bool:
    return all(value is None or isinstance(value, str) for value in values)


def _recorded_facts(root: Path) -> dict[str, Any] | None:
    """What ``.torchwheel-source.json`` says of an unpacked sdist; None in a checkout, or without the file."""
    path = root / SOURCE_FACTS_FILE
    if git.is_checkout(root) or not is_file(path):
        return None
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise _malformed_facts(root) from None
    if not isinstance(facts, dict):
        raise _malformed_facts(root)
    return facts


def _malformed_facts(root: Path) -> TorchwheelError:
    return refusal("malformed-source-facts", origin=root / SOURCE_FACTS_FILE)


def is_source_tree(path: Path) -> bool:
    """Whether a folder looks like a source tree of PyTorch."""
    return _problem_with(path, "") is None


def _problem_with(path: Path, origin: str) -> Problem | None:
    if is_closed(path):
        reason = os.strerror(errno.EACCES)
        return Problem.of("source-unreadable", origin=origin, file=path, reason=reason)
    if not exists(path):
        return Problem.of("source-missing", origin=origin, path=path)
    if not is_dir(path):
        return Problem.of("source-not-a-folder", origin=origin, path=path)
    try:
        if not any(path.iterdir()):
            return Problem.of("source-empty", origin=origin, path=path, word=shell_word(str(path)))
        missing = _missing_marks(path)
    except OSError as error:
        values = {"file": error.filename or path, "reason": error.strerror}
        return Problem.of("source-unreadable", origin=origin, **values)
    said = ", no ".join(missing)
    return Problem.of("not-pytorch", origin=origin, path=path, missing=said) if missing else None


def _missing_marks(path: Path) -> list[str]:
    """What ``path`` lacks of every PyTorch tree; enough to distinguish one from a folder beside it."""
    version, top = path / "version.txt", path / TOP_FILE
    if is_file(version):
        version.open("rb").close()  # an unreadable one would count as empty
    marks = {
        "version.txt": is_file(version),
        f"{TOP_FILE} that names {_MARK_OPTION}": is_file(top)
        and _MARK_OPTION in top.read_text(encoding="utf-8", errors="replace"),
        "torch/ folder": is_dir(path / "torch"),
        "pyproject.toml or setup.py": any(is_file(path / name) for name in ("pyproject.toml", "setup.py")),
    }
    return [mark for mark, there in marks.items() if not there]
