"""Read a checkout and its submodules with git, which has a time limit, writes nothing and runs no hook."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from torchwheel.host.programs import NoAnswer, ask_program
from torchwheel.system.files import read_beginning
from torchwheel.system.paths import exists, is_dir

REPOSITORY_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"}
)
"""Variables that bind git to one repository, whatever the folder; they are set in git's hooks."""

_RELEASE_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)", re.ASCII)
_MOST_SECONDS = 60
"""PyTorch's own .gitmodules names about 40."""
# Read trees of other users too, because a build runs their code anyway. Git before 2.38 refuses.
# core.fsmonitor may name a program in the repository, which git would run.
_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "safe.directory=*")
_SECTION = re.compile(r'\[submodule\s+"(?P<name>.*)"\]')
_ENTRY = re.compile(r"(?P<key>path|update|url)\s*=\s*(?P<value>.*)", re.IGNORECASE)
# https://git-scm.com/docs/git-ls-files: S is "skip worktree", a small letter "assume unchanged".
_UNWATCHED = re.compile(r"(?:^|\0)[Sa-z] ")
_GITLINK = re.compile(r":160000 160000 (?P<recorded>[0-9a-f]+) [0-9a-f]+ M\0(?P<path>[^\0]+)\0")


@dataclass(frozen=True)
class Checkout:
    """The state of a checkout; of several release tags (``v2.6.0``) the newest. Its reader sets ``dirty``."""

    commit: str | None = None
    release_tag: str | None = None
    dirty: bool = False
    unknown: str = ""


def is_checkout(root: Path) -> bool:
    """Whether ``root`` itself is the top of a checkout; a submodule's and a worktree's ``.git`` is a file."""
    return exists(root / ".git")


def read_checkout(root: Path) -> Checkout:
    if not is_checkout(root):
        return Checkout()
    commit, problem = _ask_git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:
        return Checkout(unknown=problem)
    tags, problem = _ask_git(root, "tag", "--points-at", "HEAD", "--list", "v*")
    releases = [match for tag in (tags or "").split() if (match := _RELEASE_TAG.fullmatch(tag))]
    newest = max(releases, key=lambda match: tuple(map(int, match.groups())), default=None)
    return Checkout(commit, newest[0] if newest else None, unknown=problem)


def head_commit(root: Path) -> str | None:
    """The full hash of the commit checked out at ``root`` itself; None if there is none or git fails."""
    return run_git(root, "rev-parse", "--verify", "--quiet", "HEAD") if is_checkout(root) else None


def head_tag(root: Path) -> str | None:
    """The tag on the commit checked out at ``root`` itself; None if there is none or git fails."""
    return run_git(root, "describe", "--tags", "--exact-match", "HEAD") if is_checkout(root) else None


def is_changed(root: Path, *besides: str) -> bool:
    """Whether tracked files of the checkout at ``root`` itself differ from its commit, or a submodule's commit does.

    What git does not compare (sparse checkout, "assume unchanged"), or cannot (a damaged index), counts as changed.
    """
    if not is_checkout(root):
        return False
    # To compare content, git would run the filters that the repository configures.
    own = _own_filters(root)
    # -c takes everything before the first = for the name.
    if any("=" in name for name in own):
        return True
    # git stops if a required filter has no command.
    off = [word for name in own for word in ("-c", f"{name}={'false' if name.endswith('required') else ''}")]
    status = ("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty")
    paths = ("--", ".", *(f":(exclude){path}" for path in besides))
    changed, watched = run_git(root, *off, *status, *paths), run_git(root, "ls-files", "-v", "-z", *paths)
    if changed is None or watched is None:
        return head_commit(root) is not None
    return bool(changed or _UNWATCHED.search(watched))


def _own_filters(root: Path) -> list[str]:
    """The settings of filters in the repository's own configuration; the user's own, such as git-lfs, are trusted."""
    question = ("--includes", "--name-only", "-z", "--get-regexp", r"^filter\.")
    listed = (run_git(root, "config", scope, *question) or "" for scope in ("--local", "--worktree"))
    names = {name for text in listed for name in text.split("\0") if name}
    return sorted(names | {f"{name.rpartition('.')[0]}.required" for name in names})


def known_changes(root: Path, *, dirty: bool) -> bool | None:
    """Whether tracked files differ from the commit; None for an unpacked sdist, where nothing shows later changes."""
    return dirty or (False if is_checkout(root) else None)


def run_git(root: Path, *arguments: str) -> str | None:
    """The output of ``git ARGUMENTS`` in ``root``, without a repository around it; None if git fails or is missing."""
    return _ask_git(root, *arguments)[0]


def _ask_git(root: Path, *arguments: str) -> tuple[str | None, str]:
    """Git's output, or None and the reason; the reason is empty if git's answer is just no."""
    environment = {key: value for key, value in os.environ.items() if key not in REPOSITORY_VARIABLES}
    above = str(root.resolve().parent)
    # In English, because the prefix of git's messages is removed below.
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_CEILING_DIRECTORIES": above, "LC_ALL": "C"}
    # With ``git replace``, a commit's hash would not identify its content.
    environment["GIT_NO_REPLACE_OBJECTS"] = "1"
    # For a missing object of a partial clone git would run what the repository calls ssh, or a helper. Git before 2.44
    # knows only the second variable.
    environment |= {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
    command = ["git", *_OPTIONS, *arguments]
    try:
        result = ask_program(command, environment, _MOST_SECONDS, root, undecodable="surrogateescape")
    except NoAnswer as failure:
        return None, str(failure)
    if result.returncode == 0:
        return result.stdout.strip("\n"), ""
    return None, result.stderr.strip().partition("\n")[0].removeprefix("fatal: ")


class WrongCommit(NamedTuple):
    """A submodule that is checked out at another commit than the tree wants."""

    path: str
    recorded: str
    checked_out: str


def missing_submodules(root: Path) -> tuple[str, ...]:
    """Find the submodules, at any depth, that are not checked out."""
    return tuple(submodule.path for submodule in read_submodules(root) if is_empty(root / submodule.path))


def wrong_commits(root: Path) -> tuple[WrongCommit, ...]:
    """Find the submodules at a commit other than the recorded one; () if git fails."""
    paths = [path.as_posix() for path in _submodule_urls(root)] if is_checkout(root) else []
    if not paths:
        return ()
    # "dirty" ignores edits in a submodule but reports another commit.
    changed = run_git(root, "diff-files", "-z", "--no-abbrev", "--ignore-submodules=dirty", "--", *paths)
    found = (
        (link["path"], link["recorded"], head_commit(root / link["path"]))
        for link in _GITLINK.finditer(changed or "")
    )
    return tuple(WrongCommit(path, recorded, commit) for path, recorded, commit in found if commit)


def is_dirty(root: Path, *besides: str) -> bool:
    """Whether tracked files of a checkout or of its submodules, at any depth, differ from the commit."""
    return is_changed(root, *besides) or any(
        is_changed(root / below / path) or _is_replaced(root / below, path)
        for below, path, _ in _find_submodules(root)
    )


def _is_replaced(root: Path, path: PurePosixPath) -> bool:
    """Whether a submodule's folder has files but no repository, though the index records a commit for it."""
    folder = root / path
    if not is_checkout(root) or is_checkout(folder) or not is_dir(folder) or not any(folder.iterdir()):
        return False
    return (run_git(root, "ls-files", "--stage", "--", path.as_posix()) or "").startswith("160000 ")


def is_empty(folder: Path) -> bool:
    return not is_dir(folder) or not any(entry.name != ".git" for entry in folder.iterdir())


class Submodule(NamedTuple):
    path: str
    url: str


def read_submodules(root: Path) -> tuple[Submodule, ...]:
    """Return the submodules of a tree, at any depth, by path."""
    return tuple(sorted(Submodule(str(below / path), url) for below, path, url in _find_submodules(root)))


def _find_submodules(root: Path) -> Iterator[tuple[PurePosixPath, PurePosixPath, str]]:
    """Yield the submodules of a tree, at any depth: the folder of the parent, the path in it, and the URL."""
    top, waiting = root.resolve(), [PurePosixPath()]
    while waiting:
        below = waiting.pop()
        for path, url in _submodule_urls(root / below).items():
            yield below, path, url
            # Symbolic links lead out of the tree, or into it again.
            if (top / below / path).resolve() == top / below / path:
                waiting.append(below / path)


def _submodule_urls(root: Path) -> dict[PurePosixPath, str]:
    """Read path -> url from .gitmodules, of submodules inside the tree that ``git submodule update`` would fill.

    Not with git, because an unpacked archive lacks its submodules too, also on machines without git.
    """
    text = read_beginning(root / ".gitmodules", undecodable="surrogateescape")
    sections: list[dict[str, str]] = []
    for line in map(str.strip, text.splitlines()):
        if _SECTION.fullmatch(line):
            sections.append({})
        elif sections and (entry := _ENTRY.fullmatch(line)):
            sections[-1][entry["key"].lower()] = _unquote(entry["value"])
    urls = {
        PurePosixPath(section["path"]): section.get("url", "")
        for section in sections
        if "\0" not in section.get("path", "\0") and section.get("update") != "none"
    }
    return {path: url for path, url in urls.items() if is_inside(path)}


def is_inside(path: PurePosixPath) -> bool:
    """Whether a path that a file of a tree names lies in the tree."""
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _unquote(value: str) -> str:
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        return re.sub(r'\\(["\\])', r"\1", value[1:-1])
    return value
