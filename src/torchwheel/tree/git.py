"""What git says of a checkout. Git itself is asked, with a time limit; it writes nothing and runs no hook."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.programs import NoAnswer, ask_program

_RELEASE_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)", re.ASCII)
_MOST_SECONDS = 60
_OWN_SCOPES = ("local", "worktree")
_MISLEADING_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"}
)
# A tree that another user owns is read all the same: who builds it runs its code anyway. Git before 2.38 refuses.
_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "safe.directory=*")


@dataclass(frozen=True)
class Checkout:
    """What is checked out.

    Attributes:
        commit: the full hash; None without a repository or a first commit, or where git cannot say.
        release_tag: the release tag on that commit, ``v2.6.0``, the newest of several.
        dirty: whether tracked files, in submodules too, are not as in the commit; asked of by who reads the tree.
        unknown: why git cannot say; empty where it can, or where there is no repository to ask.
    """

    commit: str | None = None
    release_tag: str | None = None
    dirty: bool = False
    unknown: str = ""


def is_checkout(root: Path) -> bool:
    """Whether ``root`` itself is the top of a checkout; a submodule's and a worktree's ``.git`` is a file."""
    return (root / ".git").exists()


def read_checkout(root: Path) -> Checkout:
    """Commit and release tag of the checkout at ``root`` itself."""
    if not is_checkout(root):
        return Checkout()
    commit, problem = _ask(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:
        return Checkout(unknown=problem)
    tags, problem = _ask(root, "tag", "--points-at", "HEAD", "--list", "v*")
    releases = [match for tag in (tags or "").split() if (match := _RELEASE_TAG.fullmatch(tag))]
    newest = max(releases, key=lambda match: tuple(map(int, match.groups())), default=None)
    return Checkout(commit, newest[0] if newest else None, unknown=problem)


def head_commit(root: Path) -> str | None:
    """The full hash of the commit checked out at ``root`` itself; None where there is none or git cannot say."""
    return run_git(root, "rev-parse", "--verify", "--quiet", "HEAD") if is_checkout(root) else None


def is_changed(root: Path, *besides: str) -> bool:
    """Whether tracked files of the checkout at ``root`` itself are not as in its commit, or a submodule is at another.

    False where git cannot say. Files that are not tracked, and what is within submodules, do not count.

    Args:
        besides: files that do not count, relative to ``root``.
    """
    if not is_checkout(root):
        return False
    # To compare content, git would run the filters that the repository itself configures.
    listed = run_git(root, "config", "--show-scope", "--name-only", "-z", "--get-regexp", r"^filter\.") or ""
    fields = listed.split("\0")
    own = {name for scope, name in zip(fields[::2], fields[1::2], strict=False) if scope in _OWN_SCOPES}
    own |= {f"{name.rpartition('.')[0]}.required" for name in own}
    off = [
        word
        for name in sorted(own)
        for word in ("-c", f"{name}={'false' if name.endswith('required') else ''}")
    ]
    status = ("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty")
    return bool(run_git(root, *off, *status, "--", ".", *(f":(exclude){path}" for path in besides)))


def run_git(root: Path, *arguments: str) -> str | None:
    """What ``git ARGUMENTS`` prints in ``root``; None when it fails, takes too long or is not installed.

    A repository around ``root`` is not asked.
    """
    return _ask(root, *arguments)[0]


def _ask(root: Path, *arguments: str) -> tuple[str | None, str]:
    """What git prints, or None and why; without a reason where git only says no."""
    environment = {key: value for key, value in os.environ.items() if key not in _MISLEADING_VARIABLES}
    above = str(root.resolve().parent)
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_CEILING_DIRECTORIES": above, "LC_ALL": "C"}
    command = ["git", *_OPTIONS, *arguments]
    try:
        result = ask_program(command, environment, _MOST_SECONDS, root, undecodable="surrogateescape")
    except NoAnswer as failure:
        return None, str(failure)
    if result.returncode == 0:
        return result.stdout.strip("\n"), ""
    return None, result.stderr.strip().partition("\n")[0].removeprefix("fatal: ")
