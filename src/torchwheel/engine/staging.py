"""The folders of one build: locked, and with a copy of the source that only what changed is copied to.

Both generations of PyTorch write into the tree that they build, so a build happens in a copy that belongs to it alone.
The copy shares its blocks with the original where the file system can (FICLONE).
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
from itertools import count
from pathlib import Path

from torchwheel._files import (
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
from torchwheel._locks import file_lock, folder_lock
from torchwheel.engine.cache import record_use, remove_orphans
from torchwheel.engine.compiler_cache import write_stand_in
from torchwheel.engine.configuring import drop_stale_cache, of_tree
from torchwheel.engine.flag_files import rebuild_for_changed_flag_files
from torchwheel.engine.memory import write_launcher
from torchwheel.engine.packing import MARKS_OF_SOURCE, PACKED_SOURCES, drop_installed, packs_the_tree
from torchwheel.engine.relevant_environment import environment_digest, searched_digest
from torchwheel.errors import refusal
from torchwheel.host.compiler_cache import CHOICE_FILE, NO_CACHE
from torchwheel.host.private_folder import make_private
from torchwheel.plan.fingerprint import digest
from torchwheel.plan.forwarding import INCLUDE_BEFORE, cmake_file
from torchwheel.plan.model import Plan
from torchwheel.progress.record import LAST_BUILD
from torchwheel.reproducible import nvcc_naming
from torchwheel.terminal import listed, say
from torchwheel.tree.git import Checkout, run_git
from torchwheel.tree.model import Tree
from torchwheel.tree.read import source_now
from torchwheel.tree.source_files import new_files, source_files

if sys.platform == "linux":
    import fcntl

# Tells what the sources were like when modules were last generated, and which files of theirs say what is generated.
_DESCRIBED = "described.json"
_DESCRIBING = (".cmake", "CMakeLists.txt", "pyproject.toml")
_MODULES = (".py", ".pyi")
# Names what lay in the stage beside the sources when the last run in it ended.
_MADE = "made.json"
# Where a staged submodule's repository names the objects that it borrows; it has no config, as those of git have.
_BORROWED = "objects/info/alternates"
# The state of the folders that CMake searches, when the last build began.
_SEARCHED = "searched.json"
# What running Python or git leaves; nothing packs it.
_PASSED_OVER = frozenset({".git", "__pycache__"})
_FICLONE = 0x40049409
"""ioctl(2) request that makes one file share another's blocks (linux/fs.h)."""


@contextmanager
def locked_folders(
    plan: Plan, environment: Mapping[str, str], *, by_hand: bool = False
) -> Iterator[tuple[str, ...]]:
    """Hold the build's folders, bring the stage up to date, and start a new log; yields what is built of no commit.

    Two builds of one fingerprint, or two in the same tree, would write into the same folder: the second waits.

    Args:
        by_hand: whether the user is going to build there, so that what comes into the stage later may be made by it.

    Raises:
        OSError: a folder cannot be made or a file cannot be copied.
        TorchwheelError: the tree is at another commit than planned, or was changed since.
    """
    folders = plan.folders

    def wait() -> None:
        say(f"waiting for another build in {folders.source} to end")

    remove_orphans(folders.cache)
    # CMake writes down all options, also one that is a secret.
    make_private(folders.root)
    with (
        file_lock(folders.root / "lock", wait)
        if folders.staged
        else folder_lock(folders.source, folders.cache / f"tree-{plan.tree.identity}.lock", wait)
    ):
        folders.root.mkdir(parents=True, exist_ok=True)
        record_use(folders.root, plan.tree.root)
        # An interrupted build is resumed; its log is still wanted. Windows moves no file that is open.
        with suppress(OSError):
            folders.log.replace(folders.previous_log)
        with open_log(folders.log) as log:
            log.truncate(0)
        atomic_write(folders.cache / LAST_BUILD, str(folders.log))
        if folders.staged:
            _bring_stage_up_to_date(plan)
        _require_planned_source(plan)
        # While the build takes its hours, they may be committed or deleted.
        new = new_files(plan.tree)
        _write_defines(plan, environment)
        _look_again_where_packages_changed(plan, environment)
        rebuild_for_changed_flag_files(plan, environment)
        _settle_compiler_cache(plan)
        drop_stale_cache(plan)
        made = folders.root / _MADE
        # What a killed run made is not known.
        made.unlink(missing_ok=True)
        try:
            yield new
        finally:
            if folders.staged and not by_hand:
                # A full disk has an error of its own.
                with suppress(OSError):
                    atomic_write(made, json.dumps({"made": _beside_the_sources(plan)}))


def _settle_compiler_cache(plan: Plan) -> None:
    """Remember the compiler cache that the folder is built with, and put the script there that takes its place.

    CMake would keep the launchers that it was once given.
    """
    folders = plan.folders
    record, choice = folders.root / CHOICE_FILE, plan.compiler_cache or NO_CACHE
    if any(compiler.launcher for compiler in plan.host.compilers):
        # A launcher in CC or CXX is part of the compiler's name, and the user's own choice.
        record.unlink(missing_ok=True)
        return
    with suppress(FileNotFoundError):
        if record.read_text(encoding="utf-8") != choice and folders.cmake_cache.is_file():
            of_tree(plan).forget()
    atomic_write(record, choice)
    if choice != NO_CACHE:
        write_stand_in(folders.stand_in / choice)


def _require_planned_source(plan: Plan) -> None:
    """See that the tree is at the commit whose name the wheel is going to have: it may have waited for the lock."""
    tree, now = plan.tree, source_now(plan.tree)
    if (now.commit, now.release_tag, now.dirty) == (tree.commit, tree.release_tag, tree.dirty):
        return
    raise refusal(
        "checkout-changed", origin=tree.root, tree=tree.root, before=_described(tree), now=_described(now)
    )


def _described(source: Tree | Checkout) -> str:
    place = f"at {source.release_tag or (source.commit or '')[:7]}" if source.commit else "without a commit"
    return f"{place} ({'changed' if source.dirty else 'unchanged'})"


def _write_defines(plan: Plan, environment: Mapping[str, str]) -> None:
    """Write what CMake includes. Where that or what CMake reads of the environment changed, CMake begins anew.

    It remembers what the environment made it find, and setup.py hands variables to it only where it knows nothing yet.
    """
    if not plan.included:
        return
    values = {d.name: d.value for d in plan.defines if d.name in plan.included.options}
    theirs = next((d.value for d in plan.defines if d.name == INCLUDE_BEFORE), None)
    launcher = write_launcher(plan.folders.launcher) if plan.included.launcher else ()
    text = cmake_file(
        values,
        theirs,
        maps_paths=plan.included.maps_paths,
        launcher=launcher,
        reproducible=plan.reproducible,
        nvcc=nvcc_naming(plan.toolkit.version) if plan.toolkit and plan.included.maps_paths else None,
    )
    stamp = f"# environment {environment_digest(plan, environment)}\n"
    write_if_changed(plan.folders.defines_file, text + stamp)


def _look_again_where_packages_changed(plan: Plan, environment: Mapping[str, str]) -> None:
    """Have CMake run where a package may have come that it did not find before: setup.py configures only once."""
    if not (plan.folders.staged and packs_the_tree(plan)):
        return
    record, now = plan.folders.root / _SEARCHED, searched_digest(plan, environment)
    before = read_state(record).get("searched")
    if before not in (None, now):
        # First: a kill between the two must not hide the change.
        _let_cmake_look_again(plan.folders.source)
    if before != now:
        atomic_write(record, json.dumps({"searched": now}))


def _bring_stage_up_to_date(plan: Plan) -> None:
    folders, state_file = plan.folders, plan.folders.stage_state
    known = read_state(state_file)
    if not known and (folders.source.exists() or folders.build.exists()):
        say(f"starting anew in {folders.root}: what was copied there is not known")
        for folder in (folders.source, folders.build):
            if folder.exists():
                remove_tree(folder)
    restored = bring_up_to_date(plan.tree.root, folders.source, state_file)
    if restored:
        # The last run may have installed what it had made of them.
        (folders.build / PACKED_SOURCES).unlink(missing_ok=True)
    _move_added(plan)
    _drop_generated(plan)
    drop_installed(plan, read_state(state_file))
    if restored:
        say(f"changed in {folders.source}, and copied there again: {listed(restored)}")


def _drop_generated(plan: Plan) -> None:
    """Remove modules that builds made beside the sources, where those may describe others: they would be packed.

    What is still described is made again, since CMake looks again. C++ is not packed, and would be compiled again.
    """
    source, record, known = (
        plan.folders.source,
        plan.folders.root / _DESCRIBED,
        read_state(plan.folders.stage_state),
    )
    described = {name: marks[:MARKS_OF_SOURCE] for name, marks in known.items() if name.endswith(_DESCRIBING)}
    now = {"described": digest([described, sorted(known)])}
    before = read_state(record)
    if before == now:
        return
    for package in source.glob("*/__init__.py") if before else ():
        folder = package.parent.name
        made = {
            f"{folder}/{name}"
            for name, entry in entries_below(package.parent)
            if name.endswith(_MODULES) and not entry.is_dir(follow_symlinks=False)
        }
        stale = made.difference(known)
        if stale:
            # First: a kill between the two must not leave CMake with what was removed.
            _let_cmake_look_again(source)
        for name in stale:
            (source / name).unlink()
    atomic_write(record, json.dumps(now))


def _move_added(plan: Plan) -> None:
    """Take out of the stage what neither the tree nor the last build has put there: it would be packed."""
    known = read_state(plan.folders.root / _MADE).get("made")
    added = [] if known is None else sorted(set(_beside_the_sources(plan)).difference(known))
    if not added:
        return
    stage, root = plan.folders.source, plan.folders.root
    aside = next(folder for number in count(1) if not (folder := root / f"added-{number}").exists())
    for name in added:
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(aside / name)
    say(f"added to {stage} by hand, and moved to {aside}: {listed(added)}")


def _beside_the_sources(plan: Plan) -> list[str]:
    """What lies in the stage, relative to it, but is no source; not what is in CMake's build directory."""
    stage, sources = plan.folders.source, read_state(plan.folders.stage_state)
    build = os.path.relpath(plan.folders.build, stage)
    found = entries_below(stage, lambda name: name == build or name.rpartition("/")[2] in _PASSED_OVER)
    return [name for name, entry in found if name not in sources and not entry.is_dir(follow_symlinks=False)]


def bring_up_to_date(source: Path, stage: Path, state_file: Path) -> list[str]:
    """Make ``stage`` hold the source files of ``source``; files that a build made there stay.

    Args:
        source: the user's tree; only read.
        state_file: remembers every file as it was copied, and its copy. Without it, ``stage`` must be empty.

    Returns:
        The files that were changed in the stage meanwhile, and are copied there again.

    Raises:
        OSError: a file cannot be read or written; the next run goes on where this one stopped.
    """
    known = read_state(state_file)
    sources = source_files(source)
    files = sources.files
    stage.mkdir(parents=True, exist_ok=True)
    removed = known.keys() - set(files)
    for relative in removed:
        # Its folder may have become a file or a link meanwhile, or the build has made a folder of its name.
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if not any((stage / folder).is_symlink() for folder in _folders_above(relative)):
                (stage / relative).unlink()
    _remove_missing_folders(source, stage, removed)
    if known and known.keys() != set(files):
        _let_cmake_look_again(stage)
    current: dict[str, list[int]] = {}
    restored: list[str] = []
    copier = _Copier(source, stage, first=not known)
    try:
        for relative in files:
            # No Path of each: PyTorch's tree has 30,000 files.
            target = f"{stage}/{relative}"
            copier.make_folders(relative)
            status = os.lstat(f"{source}/{relative}")
            mark, was = _mark(status), known.get(relative, [])
            now = [*mark, *_place_mark(target)]
            if was != now:
                if was and copier.has_copied(relative):
                    # Other times and permissions are no reason to compile again: unpacking an sdist changes both.
                    _set_mode(status, Path(target))
                else:
                    copier.place(relative, status)
                    if was[:MARKS_OF_SOURCE] == mark:
                        restored.append(relative)
                now = [*mark, *_place_mark(target)]
            current[relative] = now
    except BaseException:
        _write_state(state_file, {**known, **current})
        raise
    # By what is known a run that follows a kill finds them again.
    _remove_lost_checkouts(stage, {*known, *files}, sources.checkouts)
    _share_git(source, sources.checkouts, stage)
    _write_state(state_file, current)
    return restored


def _remove_missing_folders(source: Path, stage: Path, removed: Collection[str]) -> None:
    """Remove staged folders whose sources have left the tree together with the folder, with what a build made there.

    CMake's ``if(EXISTS)`` and ``file(GLOB)`` would see them for ever; what is still wanted there is made again.
    """
    for folder in sorted({folder for file in removed for folder in _folders_above(file)}):
        staged = stage / folder
        is_build = (staged / "CMakeCache.txt").exists()
        if not (source / folder).is_dir() and staged.is_dir() and not (staged.is_symlink() or is_build):
            remove_tree(staged)


def _remove_lost_checkouts(stage: Path, files: Collection[str], checkouts: Collection[str]) -> None:
    """Remove the repository around a staged submodule that is none any more, and folders in which nothing is left.

    Git, asked there, would tell of the submodule's last commit. What the build itself has cloned stays.
    """
    for folder in sorted({folder for file in files for folder in _folders_above(file)}, reverse=True):
        own = stage / folder / ".git"
        if folder not in checkouts and (own / _BORROWED).is_file() and not (own / "config").exists():
            remove_tree(own)
            with suppress(OSError):
                (stage / folder).rmdir()


def _let_cmake_look_again(stage: Path) -> None:
    """Have ninja run CMake: PyTorch finds sources by patterns (``file(GLOB)``), and setup.py configures only once."""
    with suppress(FileNotFoundError):
        os.utime(stage / "CMakeLists.txt")


def _folders_above(relative: str) -> list[str]:
    """The folders that a file lies in, outermost first."""
    parts = relative.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _mark(status: os.stat_result) -> list[int]:
    """What tells that a file is as it was."""
    return [*_state_mark(status), status.st_ino]


def _place_mark(target: str) -> list[int]:
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return []
    return _state_mark(status)


def _state_mark(status: os.stat_result) -> list[int]:
    """Size, times and permissions."""
    return [status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode), inode_time(status)]


def _share_git(tree: Path, checkouts: Collection[str], stage: Path) -> None:
    """Let git, when the build asks it in the stage or in a submodule there, answer of the tree's own checkouts.

    Without a ``.git`` of its own a staged submodule would be taken for a part of PyTorch.
    """
    for checkout in checkouts:
        if checkout:
            _borrow_git(tree / checkout, stage / checkout)
        elif folder := run_git(tree, "rev-parse", "--absolute-git-dir"):
            # Absolute: a worktree's own .git is a file with a path from there.
            write_if_changed(stage / ".git", f"gitdir: {folder}\n")
    if "" not in checkouts:
        (stage / ".git").unlink(missing_ok=True)


def _borrow_git(checkout: Path, staged: Path) -> None:
    """Make a repository around a staged submodule that borrows the checkout's objects.

    A link would not do: a submodule's repository names the user's tree as its work tree, and what the build checks out
    in the stage would be checked out there.
    """
    files = ("index", "packed-refs", "shallow")
    paths = [argument for name in ("objects", *files) for argument in ("--git-path", name)]
    answer = run_git(checkout, "rev-parse", "HEAD", *paths)
    if answer is None or not staged.is_dir():
        return
    commit, objects, *places = answer.split("\n")
    own = staged / ".git"
    atomic_write(own / "HEAD", f"{commit}\n")
    atomic_write(own / _BORROWED, f"{(checkout / objects).resolve().as_posix()}\n")
    (own / "refs").mkdir(exist_ok=True)
    for name, place in zip(files, places, strict=True):
        if (checkout / place).is_file():
            atomic_copy(checkout / place, own / name)
        else:
            (own / name).unlink(missing_ok=True)


class _Copier:
    """Copies files of a tree into a stage, sharing blocks for as long as the file system agrees.

    Args:
        first: whether nothing was built there yet.
    """

    def __init__(self, source: Path, stage: Path, *, first: bool) -> None:
        self._source = source
        self._root = source.resolve()
        self._stage = stage
        self._first = first
        self._made: set[str] = set()
        # Beside the stage: what a kill leaves of a copy must not be packed.
        self._part = stage.with_name("stage.part")
        self._can_share = sys.platform == "linux"

    def make_folders(self, relative: str) -> None:
        """Make the folders that a file lies in, in place of links, which would lead out of the stage."""
        if relative.rpartition("/")[0] in self._made:
            return
        for folder in _folders_above(relative):
            if folder not in self._made:
                path = self._stage / folder
                if path.is_symlink() or path.is_file():
                    path.unlink()
                path.mkdir(exist_ok=True)
                self._made.add(folder)

    def has_copied(self, relative: str) -> bool:
        """Whether a file's copy has its content."""
        source, target = self._source / relative, self._stage / relative
        if source.is_symlink() or target.is_symlink():
            links = source.is_symlink() and target.is_symlink()
            return links and os.readlink(target) == self._destination(relative)
        return target.is_file() and filecmp.cmp(source, target, shallow=False)

    def _destination(self, relative: str) -> str:
        """Where the copy of a link leads: an absolute one into its own tree would let the build write there."""
        text = os.readlink(self._source / relative)
        real = Path(text).resolve()
        if not Path(text).is_absolute() or self._root not in (real, *real.parents):
            return text
        # Beside the stage's own folder, not resolved: both ends are in it.
        return os.path.relpath(real.relative_to(self._root), Path(relative).parent)

    def place(self, relative: str, status: os.stat_result) -> None:
        """Put a copy of a file or link into the stage, whatever is there; the folders above it are made."""
        source, target = self._source / relative, self._stage / relative
        if target.is_dir() and not target.is_symlink():
            remove_tree(target)
        if source.is_symlink():
            target.unlink(missing_ok=True)
            destination = self._destination(relative)
            if not self._first:
                # Before the link: a run that is killed between the two is not the last one that sees a new link.
                self._make_new((target.parent / destination).resolve())
            target.symlink_to(destination)
            return
        with atomic_replace(target, self._part) as part:
            if not (self._can_share and self._share(source, part)):
                shutil.copyfile(source, part)
        _set_mode(status, target)
        # What was changed or added later must look newer than what was built, even if it is an older version.
        if self._first:
            # Nor may it look newer than what will be built.
            time = min(status.st_mtime_ns, target.stat().st_mtime_ns)
            os.utime(target, ns=(status.st_atime_ns, time))

    def _make_new(self, path: Path) -> None:
        """Give a staged file, or all in a folder, the time of now, since ninja looks at what a link leads to alone."""
        found = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
        stage = self._stage.resolve()
        for file in (path, *found):
            real = file.resolve()
            if stage in real.parents and real.is_file():
                os.utime(real)

    def _share(self, source: Path, destination: Path) -> bool:
        with source.open("rb") as original, destination.open("wb") as copy:
            try:
                fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise
                self._can_share = False
                return False
        return True


def _set_mode(status: os.stat_result, target: Path) -> None:
    if not target.is_symlink():
        target.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)


def _write_state(path: Path, state: dict[str, list[int]]) -> None:
    atomic_write(path, json.dumps(state, separators=(",", ":")))
