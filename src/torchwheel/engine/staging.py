"""The folders of a build: their lock, and the stage, a copy of the source to which only changes are copied.

Both generations of PyTorch write into the tree that they build, so each build has its own copy. The copy shares its
blocks with the original if the file system supports that (FICLONE).
"""

from __future__ import annotations

import errno
import filecmp
import json
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from torchwheel.engine.configuring import of_tree
from torchwheel.engine.packing import MARKS_OF_SOURCE, PACKED_SOURCES, drop_installed
from torchwheel.engine.relevant_environment import environment_digest
from torchwheel.engine.session import held_folder, write_launcher
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.defines import INCLUDE_BEFORE, cmake_file
from torchwheel.progress.build_record import LAST_BUILD
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import join_items, say
from torchwheel.reproducible import nvcc_naming
from torchwheel.system.files import (
    atomic_copy,
    atomic_replace,
    atomic_write,
    entries_below,
    inode_time,
    open_log,
    read_state,
    remove_tree,
    write_if_changed,
)
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.tree.git import Checkout, run_git
from torchwheel.tree.source_files import new_files, source_files
from torchwheel.tree.source_tree import Tree, source_now

if sys.platform == "linux":
    import fcntl

# A staged submodule's repository has its borrowed objects here; unlike git's own it has no config.
_BORROWED = "objects/info/alternates"
_FICLONE = 0x40049409
"""ioctl(2) request that makes one file share another's blocks (linux/fs.h)."""


@contextmanager
def locked_folders(plan: Plan, environment: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Lock the build's folders, bring the stage up to date, and start a new log; another build in them waits.

    Yields the source files that are in no commit, and a digest of the environment variables that the build may depend
    on.
    """
    folders, tree = plan.folders, plan.tree
    lock = folders.root / "lock" if folders.staged else folders.cache / f"tree-{tree.identity}.lock"
    with held_folder(folders.root, tree.root, folders.cache, lock, in_place=not folders.staged):
        # Keep the log of an interrupted build, which is resumed. Windows cannot move an open file.
        with suppress(OSError):
            folders.log.replace(folders.root / "previous.log")
        with open_log(folders.log) as log:
            log.truncate(0)
        atomic_write(folders.cache / LAST_BUILD, str(folders.log))
        if folders.staged:
            _bring_stage_up_to_date(plan)
        _require_planned_source(plan)
        # Now, because they may be committed or deleted during the build.
        new = new_files(plan.tree)
        variables = environment_digest(plan, environment)
        _write_defines(plan, variables)
        of_tree(plan).drop_stale_cache()
        yield new, variables


def _require_planned_source(plan: Plan) -> None:
    """Check that the tree is still at the planned commit, because the build may have waited for the lock."""
    tree, now = plan.tree, source_now(plan.tree)
    if (now.commit, now.release_tag, now.dirty) == (tree.commit, tree.release_tag, tree.dirty):
        return
    raise refusal(
        "checkout-changed",
        origin=tree.root,
        tree=tree.root,
        before=_describe_state(tree),
        now=_describe_state(now),
    )


def _describe_state(source: Tree | Checkout) -> str:
    place = f"at {source.release_tag or (source.commit or '')[:7]}" if source.commit else "without a commit"
    return f"{place} ({'changed' if source.dirty else 'unchanged'})"


def _write_defines(plan: Plan, variables: str) -> None:
    """Write the file that CMake includes. If it or CMake's environment changed, CMake starts anew."""
    values = {d.name: d.value for d in plan.defines if d.name in plan.file_options}
    theirs = next((d.value for d in plan.defines if d.name == INCLUDE_BEFORE), None)
    launcher = write_launcher(plan.folders.launcher) if plan.launches_compilers else ()
    text = cmake_file(
        values,
        theirs,
        reported={*plan.tree.options, *(d.name for d in plan.defines)},
        maps_paths=plan.maps_paths,
        launcher=launcher,
        compiler_launcher=str(plan.folders.compiler_launcher) if plan.launches_compilers else "",
        reproducible=plan.reproducible,
        nvcc=nvcc_naming(plan.toolkit.version) if plan.toolkit and plan.maps_paths else None,
    )
    # CMake caches what it found through the environment, and setup.py passes variables to it only without a cache.
    # The version may be in it, too.
    stamp = f"# environment {variables} {plan.version}\n"
    write_if_changed(plan.folders.defines_file, text + stamp)


def _bring_stage_up_to_date(plan: Plan) -> None:
    folders, state_file = plan.folders, plan.folders.stage_state
    known = read_state(state_file)
    # The build folder first: setup.py's is in the stage.
    there = [folder for folder in (folders.build, folders.source) if exists(folder)]
    if there and not known:
        say(f"recreating {folders.root}: no record of what was copied there")
        for folder in there:
            remove_tree(folder)
    restored = bring_up_to_date(plan.tree.root, folders.source, state_file)
    if restored:
        # The last run may have installed their outputs.
        (folders.build / PACKED_SOURCES).unlink(missing_ok=True)
    drop_installed(plan, read_state(state_file))
    if restored:
        say(f"changed in {folders.source}, and copied there again: {join_items(restored)}")


def prepare_cmake_run(plan: Plan) -> None:
    """Make CMake run in the next build of a stage, in both generations: what it reads cannot be listed.

    setup.py runs it only once, but ninja runs it again for a newer CMakeLists.txt. Python modules generated beside the
    sources are removed, because they would be packed even if nothing describes them any longer; CMake and ninja make
    those that are described. C++ files are kept: they are not packed, and would be compiled again.
    """
    source, known = plan.folders.source, read_state(plan.folders.stage_state)
    if not plan.folders.staged:
        return
    # A link stays one; what it leads to is in the stage, too.
    lists = Path(os.path.realpath(source / "CMakeLists.txt"))
    with suppress(FileNotFoundError):
        # Not os.utime, whose current time is not the one that files get under libfaketime.
        mode, content = lists.stat().st_mode, lists.read_bytes()
        atomic_write(lists, content)
        lists.chmod(mode)
    for package in source.glob("*/__init__.py"):
        for name, entry in entries_below(package.parent):
            relative = f"{package.parent.name}/{name}"
            is_module = name.endswith((".py", ".pyi")) and not entry.is_dir(follow_symlinks=False)
            if is_module and relative not in known:
                (source / relative).unlink()


def bring_up_to_date(source: Path, stage: Path, state_file: Path) -> list[str]:
    """Update the source files in ``stage``, next to build outputs; returns those changed there, and copied again.

    ``state_file`` records the state of every file and of its copy; without it, the stage must be empty.
    """
    known = read_state(state_file)
    sources = source_files(source)
    files = sources.files
    stage.mkdir(parents=True, exist_ok=True)
    removed = known.keys() - set(files)
    for relative in removed:
        # Its folder may have become a file or a link meanwhile, or the build has created a folder of its name.
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if not any((stage / folder).is_symlink() for folder in _folders_above(relative)):
                (stage / relative).unlink()
    _remove_missing_folders(source, stage, removed)
    current: dict[str, list[int]] = {}
    restored: list[str] = []
    copier = _Copier(source, stage, first=not known)
    try:
        for relative in files:
            # No Path for each: PyTorch's tree has 30,000 files.
            target = f"{stage}/{relative}"
            copier.make_folders(relative)
            status = copier.read_status(relative)
            mark, was = _state_mark(status), known.get(relative, [])
            now = [*mark, *_place_mark(target)]
            if was != now:
                if was and copier.has_copied(relative):
                    # Different times and permissions do not require compiling again: unpacking an sdist changes both.
                    _set_mode(status, Path(target))
                else:
                    copier.place_copy(relative, status)
                    if was[:MARKS_OF_SOURCE] == mark:
                        restored.append(relative)
                now = [*mark, *_place_mark(target)]
            current[relative] = now
    # After Ctrl-C, too, the next run must copy only the remaining files.
    except BaseException:
        _write_state(state_file, {**known, **current})
        raise
    # After a kill the next run finds them again in the recorded state.
    _remove_lost_checkouts(stage, {*known, *files}, sources.checkouts)
    _share_git(source, sources.checkouts, stage)
    _write_state(state_file, current)
    return restored


def _remove_missing_folders(source: Path, stage: Path, removed: Collection[str]) -> None:
    """Remove the staged folders, with outputs, that the tree no longer has: CMake's ``if(EXISTS)`` would find them."""
    # Outermost first, because a folder is removed with those in it.
    for folder in sorted({folder for file in removed for folder in _folders_above(file)}):
        staged = stage / folder
        is_build = exists(staged / "CMakeCache.txt")
        if not is_dir(source / folder) and is_dir(staged) and not (staged.is_symlink() or is_build):
            remove_tree(staged)


def _remove_lost_checkouts(stage: Path, files: Collection[str], checkouts: Collection[str]) -> None:
    """Remove the repositories of submodules that are gone, whose commit git would report; not clones by the build."""
    # Innermost first, because only an empty folder can be removed.
    for folder in sorted({folder for file in files for folder in _folders_above(file)}, reverse=True):
        own = stage / folder / ".git"
        if folder not in checkouts and is_file(own / _BORROWED) and not exists(own / "config"):
            remove_tree(own)
            with suppress(OSError):
                (stage / folder).rmdir()


def _folders_above(relative: str) -> list[str]:
    parts = relative.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _place_mark(target: str) -> list[int]:
    with suppress(FileNotFoundError):
        return _state_mark(os.lstat(target))
    return []


def _state_mark(status: os.stat_result) -> list[int]:
    # The inode's time as well, because tar, rsync and cp -p preserve the file's own.
    return [status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode), inode_time(status)]


def _share_git(tree: Path, checkouts: Collection[str], stage: Path) -> None:
    """Make git in the stage use the tree's own checkouts; else a staged submodule would be a part of PyTorch."""
    for checkout in checkouts:
        if checkout:
            _borrow_git(tree / checkout, stage / checkout)
        elif folder := run_git(tree, "rev-parse", "--absolute-git-dir"):
            # Absolute, because a worktree's own .git is a file with a relative path.
            write_if_changed(stage / ".git", f"gitdir: {folder}\n")
    if "" not in checkouts:
        (stage / ".git").unlink(missing_ok=True)


def _borrow_git(checkout: Path, staged: Path) -> None:
    """Create a repository for a staged submodule that borrows the checkout's objects.

    With a link, a checkout by the build in the stage would happen in the user's tree, which the repository names.
    """
    files = ("index", "packed-refs", "shallow")
    paths = [argument for name in ("objects", *files) for argument in ("--git-path", name)]
    answer = run_git(checkout, "rev-parse", "HEAD", *paths)
    if answer is None or not is_dir(staged):
        return
    commit, objects, *places = answer.split("\n")
    own = staged / ".git"
    atomic_write(own / "HEAD", f"{commit}\n")
    atomic_write(own / _BORROWED, f"{(checkout / objects).resolve().as_posix()}\n")
    (own / "refs").mkdir(exist_ok=True)
    for name, place in zip(files, places, strict=True):
        if is_file(checkout / place):
            atomic_copy(checkout / place, own / name)
        else:
            (own / name).unlink(missing_ok=True)


class _Copier:
    """Copies files of a tree into a stage, sharing blocks if possible; ``first`` if nothing was built there yet."""

    def __init__(self, source: Path, stage: Path, *, first: bool) -> None:
        self._source, self._stage, self._first = source, stage, first
        self._root = source.resolve()
        self._made: set[str] = set()
        # Beside the stage, because a partial copy after a kill must not be packed.
        self._part = stage.with_name("stage.part")
        self._can_share = sys.platform == "linux"

    def make_folders(self, relative: str) -> None:
        """Create a file's parent folders, replacing links, which would lead out of the stage."""
        if relative.rpartition("/")[0] in self._made:
            return
        for folder in _folders_above(relative):
            if folder not in self._made:
                path = self._stage / folder
                if path.is_symlink() or is_file(path):
                    path.unlink()
                path.mkdir(exist_ok=True)
                self._made.add(folder)

    def read_status(self, relative: str) -> os.stat_result:
        """Return the status of a file, of a link itself if it stays one in the stage."""
        path = f"{self._source}/{relative}"
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode) and not self._stays_link(Path(path)):
            return os.stat(path)  # noqa: PTH116
        return status

    def _stays_link(self, path: Path) -> bool:
        """Whether a link's copy is a link: not one to a file outside of the tree, whose changes would not show."""
        return path.is_symlink() and not (is_file(path) and self._root not in path.resolve().parents)

    def has_copied(self, relative: str) -> bool:
        source, target = self._source / relative, self._stage / relative
        if self._stays_link(source) or target.is_symlink():
            links = self._stays_link(source) and target.is_symlink()
            return links and os.readlink(target) == self._link_target(relative)
        return is_file(target) and filecmp.cmp(source, target, shallow=False)

    def _link_target(self, relative: str) -> str:
        """Return the target for a link's copy; an absolute one into the tree is redirected into the stage."""
        text = os.readlink(self._source / relative)
        real = Path(text).resolve()
        if not Path(text).is_absolute() or self._root not in (real, *real.parents):
            return text
        # Relative to the unresolved folder, because both ends are in the stage.
        return os.path.relpath(real.relative_to(self._root), Path(relative).parent)

    def place_copy(self, relative: str, status: os.stat_result) -> None:
        """Copy a file or link into the stage, replacing whatever is there."""
        source, target = self._source / relative, self._stage / relative
        if is_dir(target) and not target.is_symlink():
            remove_tree(target)
        if self._stays_link(source):
            target.unlink(missing_ok=True)
            destination = self._link_target(relative)
            if not self._first:
                # Before the link, so that after a kill between the two the next run still sees a new link.
                self._make_new((target.parent / destination).resolve())
            target.symlink_to(destination)
            return
        with atomic_replace(target, self._part) as part:
            if not (self._can_share and self._share_blocks(source, part)):
                shutil.copyfile(source, part)
        _set_mode(status, target)
        # Files changed or added later must look newer than the outputs, even if they are an older version.
        if self._first:
            # A file must not look newer than the outputs to come.
            time = min(status.st_mtime_ns, target.stat().st_mtime_ns)
            os.utime(target, ns=(status.st_atime_ns, time))

    def _make_new(self, path: Path) -> None:
        """Set the time of a staged file, or all in a folder, to now, because ninja checks only the target of a link."""
        found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        stage = self._stage.resolve()
        for file in (path, *found):
            real = file.resolve()
            if stage in real.parents and is_file(real):
                os.utime(real)

    def _share_blocks(self, source: Path, destination: Path) -> bool:
        with source.open("rb") as original, destination.open("wb") as copy:
            try:
                fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
            except OSError as error:
                # A copy would not fit either.
                if error.errno == errno.ENOSPC:
                    raise
                # Any other error shows that this file system shares no blocks, so the next file is copied at once.
                self._can_share = False
                return False
        return True


def _set_mode(status: os.stat_result, target: Path) -> None:
    # chmod follows a link, which may lead out of the stage to a file of the user.
    if not target.is_symlink():
        # Writable, because a build changes sources: PyTorch's setup.py rewrites LICENSE.
        target.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)


def _write_state(path: Path, state: dict[str, list[int]]) -> None:
    atomic_write(path, json.dumps(state, separators=(",", ":")))
