"""Which of a tree's submodules are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from torchwheel.tree.git import head_commit, is_changed, is_checkout, run_git

_SECTION = re.compile(r'\[submodule\s+"(?P<name>.*)"\]')
_ENTRY = re.compile(r"(?P<key>path|update)\s*=\s*(?P<value>.*)", re.IGNORECASE)
_GITLINK = re.compile(r":160000 160000 (?P<recorded>[0-9a-f]+) [0-9a-f]+ M\0(?P<path>[^\0]+)\0")


@dataclass(frozen=True)
class WrongCommit:
    """A submodule that is checked out at another commit than the tree wants.

    Attributes:
        path: its folder, relative to the tree, with ``/``.
        recorded: the commit that the tree's index records.
        checked_out: the commit that lies there.
    """

    path: str
    recorded: str
    checked_out: str


def missing_submodules(root: Path) -> tuple[str, ...]:
    """The submodules, and submodules of submodules, whose folder is absent or empty; () without .gitmodules.

    Those with ``update = none`` do not count: ``git submodule update --init --recursive`` leaves them empty.
    """
    return tuple(sorted(_missing(root, PurePosixPath())))


def wrong_commits(root: Path) -> tuple[WrongCommit, ...]:
    """Submodules at a commit other than the recorded one; () where git cannot tell."""
    paths = [path.as_posix() for path in _submodule_paths(root)] if is_checkout(root) else []
    if not paths:
        return ()
    # "dirty" ignores what is edited within a submodule, and reports another commit.
    changed = run_git(root, "diff-files", "-z", "--no-abbrev", "--ignore-submodules=dirty", "--", *paths)
    found = (
        (link["path"], link["recorded"], head_commit(root / link["path"]))
        for link in _GITLINK.finditer(changed or "")
    )
    return tuple(WrongCommit(path, recorded, commit) for path, recorded, commit in found if commit)


def is_dirty(root: Path, *besides: str) -> bool:
    """Whether tracked files of a checkout or of a submodule, or of theirs, are not as in the commit.

    Args:
        besides: files of the checkout itself that do not count.
    """
    return is_changed(root, *besides) or any(is_dirty(root / path) for path in _submodule_paths(root))


def _missing(root: Path, below: PurePosixPath) -> Iterator[str]:
    for path in _submodule_paths(root):
        folder = root / path
        if not folder.is_dir() or not any(folder.iterdir()):
            yield str(below / path)
        else:
            yield from _missing(folder, below / path)


def _submodule_paths(root: Path) -> list[PurePosixPath]:
    """The paths in .gitmodules (git-config syntax) that lie inside the tree and are meant to be filled.

    Not asked of git: an unpacked archive lacks its submodules too, on machines without git.
    """
    try:
        lines = (root / ".gitmodules").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    sections: list[dict[str, str]] = []
    for line in map(str.strip, lines):
        if _SECTION.fullmatch(line):
            sections.append({})
        elif sections and (entry := _ENTRY.fullmatch(line)):
            sections[-1][entry["key"].lower()] = _unquoted(entry["value"])
    paths = [PurePosixPath(section["path"]) for section in sections if _is_wanted(section)]
    return [path for path in paths if path.parts and not path.is_absolute() and ".." not in path.parts]


def _is_wanted(section: dict[str, str]) -> bool:
    return "\0" not in section.get("path", "\0") and section.get("update") != "none"


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        return re.sub(r'\\(["\\])', r"\1", value[1:-1])
    return value
