"""What git knows about a tree, read from its files where that is cheap, else by running git.

The formats are those of gitrepository-layout(5) and git-pack-refs(1).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", re.ASCII)
_RELEASE_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)", re.ASCII)
_PACKED_RELEASE_TAG = re.compile(rb" refs/tags/(v\d+\.\d+\.\d+)\r?\n(?:\^([0-9a-f]+))?")
_MOST_SYMBOLIC_REFERENCES = 5
_MOST_SECONDS = 60
_MISLEADING_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"}
)


@dataclass(frozen=True)
class GitFolders:
    """Where a checkout keeps its state.

    Attributes:
        own: HEAD and index of this checkout.
        common: references and objects, shared by all worktrees of the repository.
    """

    own: Path
    common: Path


def git_folders(root: Path) -> GitFolders | None:
    """The git folders of the checkout at ``root`` itself; None when it is none."""
    own = root / ".git"
    if own.is_file():
        text = _read(own)
        if not text.startswith("gitdir:"):
            return None
        own = root / text.removeprefix("gitdir:").strip()
    if not own.is_dir():
        return None
    common = _read(own / "commondir")
    return GitFolders(own, own / common if common else own)


def head_commit(root: Path) -> str | None:
    """The full hash of the commit checked out at ``root``; None without a repository or a first commit."""
    folders = git_folders(root)
    if folders is None:
        return None
    if _has_reftable(folders):
        return _hash(run_git(root, "rev-parse", "HEAD") or "")
    return _resolve(folders, _read(folders.own / "HEAD"))


def release_tag(root: Path, commit: str | None) -> str | None:
    """The release tag on ``commit``, the newest of several; None when it carries none.

    Runs git once, and only where the references alone cannot tell: an annotated tag outside packed-refs.
    """
    folders = git_folders(root)
    if folders is None or commit is None:
        return None
    tags = set(_packed_release_tags(folders.common, commit))
    loose = _loose_release_tags(folders.common)
    tags -= loose.keys()
    tags.update(tag for tag, target in loose.items() if target == commit)
    if any(target != commit for target in loose.values()) or _has_reftable(folders):
        tags.update((run_git(root, "tag", "--points-at", commit) or "").split())
    releases = {tag: match for tag in tags if (match := _RELEASE_TAG.fullmatch(tag))}
    return max(releases, key=lambda tag: tuple(map(int, releases[tag].groups())), default=None)


def has_changes(root: Path) -> bool | None:
    """Whether tracked files differ from the commit; None when git cannot say. Slow on a large tree."""
    if git_folders(root) is None:
        return None
    status = run_git(root, "status", "--porcelain", "--untracked-files=no")
    return None if status is None else bool(status)


def run_git(root: Path, *arguments: str) -> str | None:
    """What ``git ARGUMENTS`` prints in ``root``; None when it fails, takes too long or is not installed.

    It neither writes to the repository nor runs a file system monitor that the repository names.
    """

    environment = {key: value for key, value in os.environ.items() if key not in _MISLEADING_VARIABLES}
    command = [
        "git",
        "--no-optional-locks",
        "-c",
        "core.fsmonitor=false",
        *arguments,
    ]
    try:
        result = subprocess.run(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_MOST_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip("\n")


def _resolve(folders: GitFolders, text: str) -> str | None:
    for _ in range(_MOST_SYMBOLIC_REFERENCES):
        if not text.startswith("ref:"):
            return _hash(text)
        reference = text.removeprefix("ref:").strip()
        if not reference.startswith("refs/") or ".." in reference:
            return None
        text = (
            _read(folders.own / reference)
            or _read(folders.common / reference)
            or _packed_reference(folders.common, reference)
        )
    return None


def _packed_reference(common: Path, reference: str) -> str:
    packed = _read_bytes(common / "packed-refs")
    found = re.search(rb"^([0-9a-f]+) " + re.escape(reference.encode()) + rb"\r?$", packed, re.MULTILINE)
    return found.group(1).decode() if found else ""


def _packed_release_tags(common: Path, commit: str) -> Iterator[str]:
    """Packed tags on ``commit``. An annotated tag's commit is in the ``^`` line below it, not in its own."""
    packed = _read_bytes(common / "packed-refs")
    for match in _PACKED_RELEASE_TAG.finditer(packed):
        own = packed[packed.rfind(b"\n", 0, match.start()) + 1 : match.start()]
        if (match.group(2) or own).decode("ascii", "replace") == commit:
            yield match.group(1).decode()


def _loose_release_tags(common: Path) -> dict[str, str]:
    folder = common / "refs" / "tags"
    if not folder.is_dir():
        return {}
    return {path.name: _read(path) for path in folder.iterdir() if _RELEASE_TAG.fullmatch(path.name)}


def _has_reftable(folders: GitFolders) -> bool:
    return (folders.common / "reftable").is_dir()


def _hash(text: str) -> str | None:
    return text if _HASH.fullmatch(text) else None


def _read(path: Path) -> str:
    return _read_bytes(path).decode("utf-8", "surrogateescape").strip()


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
