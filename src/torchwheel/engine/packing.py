"""The files packed into a tree's wheel: none is incomplete from an interrupted build, and none is an earlier build's.

With setup.py, CMake installs into the tree, and setuptools copies from there into its ``build`` folder and packs that.
Both skip files that look up to date by their time, which may be incomplete copies; so both copy all of them anew.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from torchwheel.host.ninja import read_dependencies
from torchwheel.plan.build_plan import Plan, hash_facts
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.terminal import join_items
from torchwheel.system.files import atomic_write, entries_below, read_state, remove_tree
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.tree.git import is_checkout
from torchwheel.tree.source_files import is_build_output, source_files
from torchwheel.tree.source_tree import Generation
from torchwheel.wheel.archive import open_wheel

# All files ever installed by builds in the same folder, in the format of CMake's own list.
_EVER_INSTALLED = "torchwheel-installed.txt"
# Lists the sources that the last run packed; missing if that run did not finish, or there was none.
PACKED_SOURCES = "torchwheel-packed.txt"
# The stage's record has numbers for each file: those of the source, then those of its copy.
MARKS_OF_SOURCE = 4


@contextmanager
def packaging_variables(plan: Plan) -> Iterator[dict[str, str]]:
    """Yield the variables for a packaging run of setup.py, with which all installed files are written again.

    CMake treats an installed file as up to date if its time is less than a second from its source's, so it would keep
    an incomplete copy of a just linked library, or a header changed within a second. Source: cmFileTimes and
    cmFileInstaller.cxx of CMake 3.25 and 4.4 (CMAKE_INSTALL_ALWAYS).
    """
    if not packs_the_tree(plan):
        yield {}
        return
    drop_packaging_leftovers(plan.folders.build)
    # In the build directory: the last run of a tree built in place may have been for another target.
    packed, ever = plan.folders.build / PACKED_SOURCES, plan.folders.build / _EVER_INSTALLED
    interrupted = not exists(packed)
    packed.unlink(missing_ok=True)
    # CMake's own list has only the files of its last install.
    _write_lines(ever, _ever_installed(plan))
    # From a file just written, because the kernel's file times lag slightly behind the clock.
    began = ever.stat().st_ctime_ns
    yield {"CMAKE_INSTALL_ALWAYS": "1"}
    left = _left_behind(plan, began if interrupted else 0) if plan.folders.staged else set()
    if left:
        # For verification of the wheel; the next run removes these files, whose origin is unknown.
        _write_lines(ever, {*_read_lines(ever), *(str(plan.folders.source / name) for name in left)})
    else:
        atomic_write(packed, staged_sources(plan))


def _left_behind(plan: Plan, began: int) -> set[str]:
    """Find files in this run's install folders that only earlier runs made.

    CMake lists what it installs at the end, so a killed run's are known by their time: before ``began`` (nanoseconds
    since 1970).
    """
    source, installed = plan.folders.source, _paths_inside(plan, _install_list(plan))
    folders = {"/".join(name.split("/")[:2]) for name in installed if name.count("/") > 1}
    older = {
        f"{folder}/{name}"
        for folder in folders
        if is_dir(source / folder)
        for name, entry in entries_below(source / folder)
        if not entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_ctime_ns < began
    }
    ever = _paths_inside(plan, _read_lines(plan.folders.build / _EVER_INSTALLED))
    known = {name for name in ever if is_file(source / name)}
    left = (older | known) - installed
    # Ninja's outputs and git's files take long to list, so they are listed only if something is left.
    if not left:
        return left
    return left - _paths_inside(plan, _ninja_outputs(plan)) - set(source_files(plan.tree.root).files)


def ignored_but_packed(plan: Plan, wheel: Path) -> tuple[str, ...]:
    """Find packed files of the user's own tree that git ignores and no build created, so that no commit has them."""
    source = plan.folders.source
    if plan.folders.staged or not packs_the_tree(plan) or not is_checkout(source):
        return ()
    began = (plan.folders.build / _EVER_INSTALLED).stat().st_ctime_ns
    with open_wheel(wheel) as archive:
        ignored = archive.members.keys() - set(source_files(source).files)
    made = _paths_inside(plan, (*_ninja_outputs(plan), *_ever_installed(plan)))
    # What setup.py generates is known by name, or was written in this run.
    return tuple(
        name
        for name in sorted(ignored - made)
        if not is_build_output(name) and is_file(source / name) and (source / name).stat().st_ctime_ns < began
    )


def packs_the_tree(plan: Plan) -> bool:
    """Whether wheels are packed from the built tree itself; scikit-build-core installs into a new folder."""
    return plan.tree.generation is Generation.SETUP_PY


def drop_packaging_leftovers(build: Path) -> None:
    """Remove setuptools' earlier copies, which it would pack: an incomplete one is newer than its source."""
    # ``lib`` is CMake's folder of linked libraries; setuptools' own has the platform in its name.
    for pattern in ("lib.*", "bdist.*"):
        for folder in build.glob(pattern):
            if is_dir(folder) and not folder.is_symlink():
                remove_tree(folder)


def drop_installed(plan: Plan, sources: Collection[str]) -> None:
    """Remove what builds installed into a setup.py tree, unless ``sources`` are unchanged; it would be packed."""
    if not packs_the_tree(plan) or (plan.folders.staged and has_packed(plan)):
        return
    for name in _paths_inside(plan, _ever_installed(plan)) - set(sources):
        (plan.folders.source / name).unlink(missing_ok=True)


def has_packed(plan: Plan) -> bool:
    return _read_lines(plan.folders.build / PACKED_SOURCES) == [staged_sources(plan)]


def staged_sources(plan: Plan) -> str:
    """A digest of the staged sources, without the copies' times: setup.py rewrites LICENSE there with equal content."""
    sources = {name: marks[:MARKS_OF_SOURCE] for name, marks in read_state(plan.folders.stage_state).items()}
    return hash_facts(sources)


def check_packed(plan: Plan, wheel: Path) -> Iterator[Problem]:
    """Report what a wheel has from an earlier build of a setup.py tree, or that it lacks torch's own module."""
    with open_wheel(wheel) as archive:
        members = archive.members.keys()
    if not packs_the_tree(plan):
        # What a pattern excludes is left out; what modules load is proved of the finished wheel.
        held = {PurePosixPath(name).name for name in members}
        built = [path.name for path in map(PurePosixPath, _install_list(plan)) if path.match("torch/_C.*")]
        lost = (name for name in built if name not in held)
        yield from (Problem.of("wheel-lacks-library", origin=wheel, library=name) for name in lost)
        return
    # Installed by an earlier build but not this one, and packed nevertheless.
    installed = _paths_inside(plan, _install_list(plan))
    ever = _paths_inside(plan, _read_lines(plan.folders.build / _EVER_INSTALLED))
    left = ever.intersection(members) - installed
    if installed and left and (left := left - set(source_files(plan.tree.root).files)):
        yield Problem.of(
            "leftovers-packed" if plan.folders.staged else "leftovers-packed/in-place",
            origin=wheel,
            files=join_items(sorted(left)),
            tree=plan.tree.root,
        )


def _paths_inside(plan: Plan, lines: Iterable[str]) -> set[str]:
    """Return the files that are in the build's source folder, relative to it."""
    source = plan.folders.source.resolve()
    paths = (Path(os.path.normpath(line)) for line in lines)
    return {path.relative_to(source).as_posix() for path in paths if source in path.parents}


def _ninja_outputs(plan: Plan) -> Iterator[str]:
    return (str(plan.folders.build / output) for output, _ in read_dependencies(plan.folders.build)[1])


def _install_list(plan: Plan) -> list[str]:
    return _read_lines(plan.folders.build / "install_manifest.txt")


def _ever_installed(plan: Plan) -> set[str]:
    return {*_install_list(plan), *_read_lines(plan.folders.build / _EVER_INSTALLED)}


def _write_lines(file: Path, lines: Collection[str]) -> None:
    atomic_write(file, "\n".join(sorted(lines)).encode(errors="surrogateescape"))


def _read_lines(file: Path) -> list[str]:
    if not is_file(file):
        return []
    return file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
