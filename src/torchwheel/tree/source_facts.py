"""The commit that an sdist was made from: git's answer, kept in a file for where there is no git."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.tree.git import git_folders, head_commit, release_tag
from torchwheel.tree.model import Tree

SOURCE_FACTS_FILE = ".torchwheel-source.json"
_DIGITS = 16


@dataclass(frozen=True)
class SourceFacts:
    """Where a tree's source comes from; see ``Tree`` for the attributes."""

    commit: str | None
    release_tag: str | None
    identity: str


def place_identity(root: Path) -> str:
    """The identity of the tree that lies at ``root``."""
    return hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]


def source_facts_json(tree: Tree) -> bytes:
    """The content of ``.torchwheel-source.json`` for an sdist made of ``tree``."""
    facts = {"commit": tree.commit, "release_tag": tree.release_tag, "identity": tree.identity}
    return (json.dumps(facts, indent=2) + "\n").encode()


def read_source_facts(root: Path) -> SourceFacts:
    """Commit and release tag of a tree: from its repository, else from ``.torchwheel-source.json``.

    Raises:
        TorchwheelError: that file is there but is not what torchwheel writes.
    """
    if git_folders(root) is not None:
        commit = head_commit(root)
        return SourceFacts(commit, release_tag(root, commit), place_identity(root))
    path = root / SOURCE_FACTS_FILE
    if not path.is_file():
        return SourceFacts(None, None, place_identity(root))
    try:
        facts = json.loads(path.read_bytes())
        values = [facts.get(key) for key in ("commit", "release_tag", "identity")]
    except (ValueError, AttributeError):
        raise _malformed(path) from None
    if not all(value is None or isinstance(value, str) for value in values):
        raise _malformed(path)
    commit, tag, identity = values
    return SourceFacts(commit, tag, identity or place_identity(root))


def _malformed(path: Path) -> TorchwheelError:
    return TorchwheelError(
        Problem(
            id="malformed-source-facts",
            what="this is not what torchwheel writes into an sdist: an object with commit and release_tag",
            remedy="unpack the sdist again, or delete the file: the version then comes from version.txt",
            origin=str(path),
        )
    )
