"""Describe the PyTorch source tree at a path, or say why there is none."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from packaging.version import Version

from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.reporting.terminal import shell_word
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_closed, is_dir, is_file
from torchwheel.tree.cmake_options import TOP_FILE, read_declarations
from torchwheel.tree.git import (
    Checkout,
    head_commit,
    head_tag,
    is_checkout,
    is_dirty,
    missing_submodules,
    read_checkout,
    read_submodules,
)
from torchwheel.tree.source_tree import SHIM_BACKEND, Tree, read_build_system
from torchwheel.versions import parse_numbers

SOURCE_FACTS_FILE = ".torchwheel-source.json"
"""In an sdist: the git state of the checkout that it was made from."""

_DIGITS = 16
_VERSION = 500
"""Characters read of version.txt, because messages quote it several times if it is not a version."""
_VERSION_FILE = "version.txt"
_METADATA = "PKG-INFO"
_METADATA_VERSION = re.compile(r"^Version: (\S{1,100})$", re.MULTILINE)
_MARK_OPTION = "USE_CUDA"
_DEFERS = "3.19"
"""The first CMake with ``cmake_language(DEFER)``, for the final values of options."""


def read_tree(path: Path, origin: str = "") -> Tree:
    """Describe the PyTorch source tree at ``path``, without running or writing anything in it."""
    problem = _problem_with(path, origin)
    if problem is not None:
        raise TorchwheelError(problem)
    root = path.resolve()
    system = read_build_system(root)
    declarations = read_declarations(root)
    source, identity = read_source(root, *_own_files(adopted=system.adopted))
    version, version_file = _read_version(root)
    minimum = max(_DEFERS, declarations.minimum_cmake or _DEFERS, key=parse_numbers)
    return Tree(
        root=root,
        version_text=version,
        version_file=version_file,
        **{**vars(system), **vars(declarations), "minimum_cmake": minimum},
        commit=source.commit,
        release_tag=source.release_tag,
        commit_unknown=source.unknown,
        dirty=source.dirty,
        missing_submodules=missing_submodules(root),
        identity=identity,
    )


def _read_version(root: Path) -> tuple[str, str]:
    """Return a tree's version and the name of its file, by the rule of its own script.

    Since 2.9 that is PKG-INFO, which a release's sdist has, before version.txt:
    https://github.com/pytorch/pytorch/pull/160315.
    """
    script = read_beginning(root / "tools" / "generate_torch_version.py")
    stated = _METADATA_VERSION.search(read_beginning(root / _METADATA)) if _METADATA in script else None
    if stated is not None:
        with suppress(ValueError):
            return Version(stated[1]).public, _METADATA
    return read_beginning(root / _VERSION_FILE).strip()[:_VERSION], _VERSION_FILE


def source_now(tree: Tree) -> Checkout:
    """Read the tree's checkout again, because it may have changed since the tree was described."""
    return read_source(tree.root, *_own_files(adopted=tree.adopted))[0]


def _own_files(*, adopted: bool) -> tuple[str, ...]:
    """The files that adopting wrote, which do not count as changes of the tree."""
    return ("pyproject.toml", f"*/{SHIM_BACKEND}.*") if adopted else ()


def source_facts_json(
    source: Tree | Checkout, identity: str, states: Mapping[str, SubmoduleState] | None = None
) -> bytes:
    """Return the content of ``.torchwheel-source.json`` for an sdist of a source.

    Args:
        states: its :func:`submodule_states`.
    """
    facts = {
        "commit": source.commit,
        "release_tag": source.release_tag,
        "dirty": source.dirty,
        "identity": identity,
        **({"submodules": {path: state._asdict() for path, state in states.items()}} if states else {}),
    }
    return (json.dumps(facts, indent=2) + "\n").encode()


def read_source(root: Path, *besides: str) -> tuple[Checkout, str]:
    """Read the checkout from git, else from ``.torchwheel-source.json``, and the identity of :class:`Tree`."""
    here = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
    path = root / SOURCE_FACTS_FILE
    if is_checkout(root) or not is_file(path):
        return replace(read_checkout(root), dirty=is_dirty(root, *besides)), here
    facts = _read_facts(path)
    commit, tag, identity = (facts.get(key) for key in ("commit", "release_tag", "identity"))
    dirty = facts.get("dirty", False)
    texts = all(value is None or isinstance(value, str) for value in (commit, tag, identity))
    if not texts or not isinstance(dirty, bool):
        raise _malformed_facts(path)
    return Checkout(commit, tag, dirty), identity or here


class SubmoduleState(NamedTuple):
    """The commit of a submodule, as a full hash, and a tag on it; None if unknown."""

    commit: str | None = None
    tag: str | None = None


def submodule_states(root: Path) -> dict[str, SubmoduleState]:
    """Return the state of each submodule by path, from git, else from ``.torchwheel-source.json``."""
    paths = [submodule.path for submodule in read_submodules(root)]
    facts = root / SOURCE_FACTS_FILE
    if is_checkout(root) or not is_file(facts):
        return {path: SubmoduleState(head_commit(root / path), head_tag(root / path)) for path in paths}
    recorded = _read_facts(facts).get("submodules", {})
    try:
        states = {path: SubmoduleState(**recorded.get(path, {})) for path in paths}
    except (AttributeError, TypeError):
        raise _malformed_facts(facts) from None
    if not all(isinstance(value, (str, type(None))) for state in states.values() for value in state):
        raise _malformed_facts(facts)
    return states


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise _malformed_facts(path) from None
    if not isinstance(facts, dict):
        raise _malformed_facts(path)
    return facts


def _malformed_facts(path: Path) -> TorchwheelError:
    return refusal("malformed-source-facts", origin=path)


def is_source_tree(path: Path) -> bool:
    """Whether a folder looks like a source tree of PyTorch."""
    return _problem_with(path, "") is None


def _problem_with(path: Path, origin: str) -> Problem | None:
    """Say why ``path`` is not a PyTorch source tree; None if it looks like one."""
    if is_closed(path):
        reason = os.strerror(errno.EACCES)
        return Problem.of("source-unreadable", origin=origin, file=path, reason=reason)
    if not exists(path):
        return Problem.of("source-missing", origin=origin, path=path)
    if not is_dir(path):
        return Problem.of("source-not-a-folder", origin=origin, path=path)
    return _problem_inside(path, origin)


def _problem_inside(path: Path, origin: str) -> Problem | None:
    try:
        if not any(path.iterdir()):
            return Problem.of("source-empty", origin=origin, path=path, word=shell_word(str(path)))
        missing = _missing_marks(path)
    except OSError as error:
        return Problem.of(
            "source-unreadable", origin=origin, file=error.filename or path, reason=error.strerror
        )
    if not missing:
        return None
    return Problem.of("not-pytorch", origin=origin, path=path, missing=", no ".join(missing))


def _missing_marks(path: Path) -> list[str]:
    """List what ``path`` lacks of every PyTorch tree; enough to distinguish one from a folder beside it."""
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
