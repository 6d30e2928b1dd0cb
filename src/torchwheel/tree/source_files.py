"""The content of a tree: its source files, which a stage copies and an sdist holds, and the vendored libraries."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from pathspec import GitIgnoreSpec

from torchwheel.system.files import entries_below, read_beginning
from torchwheel.system.paths import exists, is_file
from torchwheel.system.toml import read_toml
from torchwheel.tree.cmake_options import TOP_FILE, project_version
from torchwheel.tree.git import is_empty, is_inside, read_submodules, run_git
from torchwheel.tree.source_tree import (
    SHIM_BACKEND,
    SOURCE_FACTS_FILE,
    SubmoduleState,
    Tree,
    submodule_states,
)

_GIT = ".git"
_GITIGNORE = ".gitignore"
_LIST = ("ls-files", "-z", "--others", "--exclude-standard")


@dataclass(frozen=True)
class Sources:
    """The source files of a tree, and its checkouts: itself (``""``) and submodules. Paths are relative, with ``/``."""

    files: tuple[str, ...]
    checkouts: tuple[str, ...]
    untracked: tuple[str, ...] = ()


def source_files(root: Path) -> Sources:
    """Find the files of a tree and its submodules that git does not ignore.

    Without git, and among untracked files, build outputs are recognised by name (``build_outputs.toml``).
    """
    files, checkouts, untracked, pending = list[str](), list[str](), list[str](), [""]
    while pending:
        below = pending.pop()
        listed = _list_with_git(root / below)
        if listed is None:
            files += _walk_folder(root, below)
            continue
        checkouts.append(below.rstrip("/"))
        for entry, tracked in listed.items():
            relative = below + entry.rstrip("/")
            path = root / relative
            if not tracked and is_build_output(relative):
                continue
            try:
                mode = path.lstat().st_mode
            except (FileNotFoundError, NotADirectoryError):  # deleted
                continue
            if stat.S_ISDIR(mode):
                pending.append(relative + "/")
            else:
                files.append(relative)
                if not tracked:
                    untracked.append(relative)
    return Sources(tuple(sorted(files)), tuple(checkouts), tuple(sorted(untracked)))


def new_files(tree: Tree) -> tuple[str, ...]:
    """Find the source files of a tree that are in no commit, except those that adopting wrote."""
    shim = re.compile(rf"[^/]+/{SHIM_BACKEND}\.\w+") if tree.adopted else None
    return tuple(file for file in source_files(tree.root).untracked if not (shim and shim.fullmatch(file)))


def sdist_files(root: Path, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[str, ...]:
    """The source of a tree, filtered by ``.gitignore`` even without a repository, for an sdist.

    ``include`` and ``exclude`` are patterns in the syntax of ``.gitignore``; the first also of what is ignored.
    """
    sources = source_files(root)
    # torchwheel's own sdists already hold only source files.
    known = "" in sources.checkouts or is_file(root / SOURCE_FACTS_FILE)
    is_ignored = (lambda _: False) if known else _gitignore_matcher(root, sources.files)
    excluded = GitIgnoreSpec.from_lines(exclude)
    files = {file for file in sources.files if not is_ignored(file) and not excluded.match_file(file)}
    if include:
        included = GitIgnoreSpec.from_lines(include)
        walked = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
        everything = (path.relative_to(root).as_posix() for path in walked)
        files |= {file for file in everything if included.match_file(file) and _GIT not in file.split("/")}
    return tuple(sorted(files))


def _gitignore_matcher(root: Path, files: Iterable[str]) -> Callable[[str], bool]:
    """Whether git would ignore a file, by the ``.gitignore`` files in the tree and above it.

    Source: https://git-scm.com/docs/gitignore: the nearest file decides; nothing in an ignored folder is re-included.
    """
    top = next((folder for folder in root.parents if exists(folder / _GIT)), root)
    prefix = "" if top == root else f"{root.relative_to(top).as_posix()}/"
    around = [folder / _GITIGNORE for folder in root.parents if prefix and folder.is_relative_to(top)]
    within = [root / file for file in files if file.rpartition("/")[2] == _GITIGNORE]
    specs = {
        f"{file.parent.relative_to(top).as_posix()}/".removeprefix("./"): GitIgnoreSpec.from_lines(
            read_beginning(file, undecodable="surrogateescape").splitlines()
        )
        for file in (*around, *within)
        if is_file(file)
    }

    @cache
    def is_ignored(path: str) -> bool:
        folder = _folder_of(path)
        if len(folder) > len(prefix) and is_ignored(folder):
            return True
        while True:
            answer = specs[folder].check_file(path[len(folder) :]).include if folder in specs else None
            if answer is not None or not folder:
                return bool(answer)
            folder = _folder_of(folder)

    # A repository above that ignores the whole tree is unrelated to it.
    if prefix and is_ignored(prefix):
        specs = {folder: spec for folder, spec in specs.items() if folder.startswith(prefix)}
        is_ignored.cache_clear()
    return lambda file: is_ignored(prefix + file)


def _folder_of(path: str) -> str:
    """``a/`` of ``a/b`` and of ``a/b/``; empty for ``a``."""
    above = path.rstrip("/").rpartition("/")[0]
    return f"{above}/" if above else ""


def _list_with_git(folder: Path) -> dict[str, bool] | None:
    """A checkout's files: path -> whether git tracks it; folders are submodules or other repositories.

    Ignored repositories are listed too: PyTorch's build clones nccl into one and reuses it.
    """
    if not exists(folder / _GIT):
        return None
    known = run_git(folder, *_LIST, "--cached", "-t")
    ignored = run_git(folder, *_LIST, "--ignored", "--directory")
    if known is None or ignored is None:
        return None
    clones = [name for name in ignored.split("\0") if name.endswith("/") and exists(folder / name / _GIT)]
    lines = [line for line in known.split("\0") if line]
    return {**dict.fromkeys(clones, False), **{line[2:]: line[0] != "?" for line in lines}}


def _walk_folder(root: Path, below: str) -> Iterator[str]:
    for relative, entry in entries_below(root / below, lambda relative: is_build_output(below + relative)):
        if entry.is_file(follow_symlinks=False) or entry.is_symlink():
            yield below + relative


def is_build_output(relative: str) -> bool:
    return _build_outputs().match(relative) is not None


@cache
def _build_outputs() -> re.Pattern[str]:
    """A pattern for paths, from the tree's root, that are or lie in an entry of ``build_outputs.toml``."""
    table = read_toml(Path(__file__).with_name("build_outputs.toml"))
    names = "|".join(map(re.escape, table["anywhere"]))
    # * matches within one name.
    paths = "|".join("[^/]*".join(map(re.escape, pattern.split("*"))) for pattern in table["paths"])
    return re.compile(rf"(?:(?:.*/)?(?:{names})|{paths})(?:/|\Z)", re.DOTALL)


_THIRD_PARTY = "third_party"
_LICENCE_FIELD = re.compile(r"^License: (?P<licence>.+)\nFiles: (?P<folders>.+(?:\n {5}.+)*)", re.M)
_VERSION = re.compile(r"\A\d+\.\d[A-Za-z\d.-]*\Z", re.ASCII)
# The end of a tag (v1.2.3, release-1.2.3) or of a folder's name (miniz-3.0.2).
_AT_END = re.compile(r"(?:^|[-_])v?(?P<version>\d+\.\d[A-Za-z\d.]*)$", re.ASCII)
_VERSION_FILES = ("VERSION", "VERSION_NUMBER", "VERSION.txt", "version.txt")


@dataclass(frozen=True)
class VendoredLibrary:
    """A library whose source lies in a tree; its licence as in the tree's list of licences."""

    path: str
    name: str
    version: str | None
    commit: str | None
    url: str
    licence: str | None


def vendored_libraries(root: Path) -> tuple[VendoredLibrary, ...]:
    """Return the libraries vendored in a tree, by path, without those whose folder is empty."""
    states, licences = submodule_states(root), dict(_read_licences(root))
    urls = {submodule.path: submodule.url for submodule in read_submodules(root)}
    paths = sorted({*urls, *licences, *_find_copied_folders(root)})
    return tuple(
        _describe_library(
            root, path, states.get(path, SubmoduleState()), urls.get(path, ""), licences.get(path)
        )
        for path in paths
        if not is_empty(root / path)
    )


def _describe_library(
    root: Path, path: str, state: SubmoduleState, url: str, licence: str | None
) -> VendoredLibrary:
    folder = PurePosixPath(path).name
    tagged, named = _AT_END.search(state.tag or ""), _AT_END.search(folder)
    release = tagged or named
    version = release["version"] if release else _stated_version(root / path)
    name = folder[: named.start()] if named and named.start() else folder
    return VendoredLibrary(path, name, version, state.commit, url, licence)


def _stated_version(folder: Path) -> str | None:
    texts = (read_beginning(folder / name).strip() for name in _VERSION_FILES)
    stated = next((text for text in texts if _VERSION.match(text)), None)
    return stated or project_version(read_beginning(folder / TOP_FILE))


def _read_licences(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (folder, licence) of PyTorch's own list."""
    # PyTorch's build_bundled.py writes it, a paragraph for each library: Name, License, Files (folders, after commas).
    for entry in _LICENCE_FIELD.finditer(read_beginning(root / _THIRD_PARTY / "LICENSES_BUNDLED.txt")):
        for folder in entry["folders"].split(","):
            path = PurePosixPath(folder.strip())
            if is_inside(path):
                yield str(path), entry["licence"].strip()


def _find_copied_folders(root: Path) -> Iterator[str]:
    """Yield the folders in ``third_party`` that have a licence file."""
    for pattern in ("LICEN[CS]E*", "COPYING*"):
        for file in (root / _THIRD_PARTY).glob(f"*/{pattern}"):
            yield f"{_THIRD_PARTY}/{file.parent.name}"
