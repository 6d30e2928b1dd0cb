"""What is packed into a tree's wheel: nothing that an interrupted build left in half, and all as it was installed.

setup.py: CMake installs into the tree, setuptools copies from there into its ``build`` folder, and packs that. Both
copy only what they take to be older than its source, or not of the same second: half a file is neither.
"""

from __future__ import annotations

import os
import re
import time
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from torchwheel._files import atomic_write, entries_below, read_state, remove_tree
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.host.ninja import read_dependencies
from torchwheel.plan.fingerprint import digest
from torchwheel.plan.model import Plan
from torchwheel.terminal import listed
from torchwheel.tree.git import is_checkout
from torchwheel.tree.model import Generation
from torchwheel.tree.source_files import is_build_output, source_files
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.objfile import read_linkage

_SHARED_LIBRARY = re.compile(r"\.(?:so|dylib|dll|pyd)(?:\.\d+)*$", re.IGNORECASE)
_PACKAGE, _OWN_MODULE = "torch/__init__.py", "torch/_C.*"
_CHUNK = 1 << 20
_INSTALLED = "install_manifest.txt"
# All that builds in the same folder ever installed, in CMake's own way to list it.
_EVER_INSTALLED = "torchwheel-installed.txt"
# Names the sources that the last run packed; not there where that was not brought to its end, or there was none.
PACKED_SOURCES = "torchwheel-packed.txt"
# Of the numbers that the stage's record has for each file, those of the source stand first, and then those of its copy.
MARKS_OF_SOURCE = 5
# What CMake takes for one time, and what a build may do before it installs or has done since.
_JUST_NOW_SECONDS = 5


@contextmanager
def packaging(plan: Plan) -> Iterator[dict[str, str]]:
    """Around a run that packs: variables for setup.py, by which it makes all anew that may be there in half.

    CMake takes an installed file for up to date whose time is less than a second from its source's, so half a copy of a
    library that was just linked stays, and so does a header that was changed within a second. Unless the last run came
    to its end, and some time ago, it is set to compare no times.
    Source: cmFileTimes and cmFileInstaller.cxx of CMake 3.25 and 4.4 (CMAKE_INSTALL_ALWAYS).
    """
    if not packs_the_tree(plan):
        yield {}
        return
    drop_packaging_leftovers(plan.folders.build)
    # Beside what was built: in a tree that is built where it lies, the last run may have been for another target.
    packed, ever = plan.folders.build / PACKED_SOURCES, plan.folders.build / _EVER_INSTALLED
    interrupted = not packed.exists()
    always = interrupted or _just_installed(plan.folders.build)
    packed.unlink(missing_ok=True)
    _write_lines(ever, {*_install_list(plan), *_lines(ever)})
    began = ever.stat().st_ctime_ns
    yield {"CMAKE_INSTALL_ALWAYS": "1"} if always else {}
    left = _left_behind(plan, began if interrupted else 0) if plan.folders.staged else set()
    if left:
        # For the proof of the wheel; the next run removes it, since this one packed of what it does not know.
        _write_lines(ever, {*_lines(ever), *(str(plan.folders.source / name) for name in left)})
    else:
        atomic_write(packed, staged_sources(plan))


def _left_behind(plan: Plan, began: int) -> set[str]:
    """What lies where this run installed, is no source, and was made by earlier runs alone.

    CMake lists what it installed when it has ended. Of a run that was killed before, the time tells.

    Args:
        began: what has not changed since, and neither CMake nor ninja knows, counts too; nanoseconds since 1970.
    """
    source, installed = plan.folders.source, _inside(plan, _install_list(plan))
    folders = {"/".join(name.split("/")[:2]) for name in installed if name.count("/") > 1}
    older = {
        f"{folder}/{name}"
        for folder in folders
        if (source / folder).is_dir()
        for name, entry in entries_below(source / folder)
        if not entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_ctime_ns < began
    }
    known = {
        name
        for name in _inside(plan, _lines(plan.folders.build / _EVER_INSTALLED))
        if (source / name).is_file()
    }
    left = (older | known) - installed
    if not left:
        return left
    return left - _inside(plan, _made(plan)) - set(source_files(plan.tree.root).files)


def ignored_but_packed(plan: Plan, wheel: Path) -> tuple[str, ...]:
    """What of the user's own tree was packed that git ignores and that no build made: it is in no commit either.

    What setup.py itself generates is known by its name, or was written in this run.
    """
    source = plan.folders.source
    if plan.folders.staged or not packs_the_tree(plan) or not is_checkout(source):
        return ()
    ever = plan.folders.build / _EVER_INSTALLED
    began = ever.stat().st_ctime_ns
    with open_wheel(wheel) as archive:
        ignored = archive.members.keys() - set(source_files(source).files)
    made = _inside(plan, _made(plan)) | _inside(plan, {*_install_list(plan), *_lines(ever)})
    return tuple(
        name
        for name in sorted(ignored - made)
        if not is_build_output(name)
        and (source / name).is_file()
        and (source / name).stat().st_ctime_ns < began
    )


def packs_the_tree(plan: Plan) -> bool:
    """Whether wheels are packed from the tree that is built in; scikit-build-core installs into a new folder."""
    return plan.tree.generation is Generation.SETUP_PY


def _just_installed(build: Path) -> bool:
    """Whether CMake installed from here so recently that its copies may look as new as what they are of."""
    with suppress(FileNotFoundError):
        return time.time() - (build / _INSTALLED).stat().st_mtime < _JUST_NOW_SECONDS
    return False


def drop_packaging_leftovers(build: Path) -> None:
    """Remove what setuptools copied into its ``build`` folder in earlier packaging.

    A file that an interrupted copy left there in half is newer than its source, so setuptools would pack it. ``lib`` is
    CMake's: libraries are linked there. setuptools' own has the platform in its name where there is an extension.
    """
    for pattern in ("lib.*", "bdist.*"):
        for folder in build.glob(pattern):
            if folder.is_dir() and not folder.is_symlink():
                remove_tree(folder)


def drop_installed(plan: Plan, sources: Collection[str]) -> None:
    """Remove what builds installed into a setup.py tree, unless its sources are those of the last one.

    A header that was deleted since, or a library that is no longer built, would be packed.

    Args:
        sources: the files that are the tree's own, relative to the folder that is built in; a stage is up to date.
    """
    if not packs_the_tree(plan):
        return
    if plan.folders.staged and has_packed(plan):
        return
    for name in _inside(plan, {*_install_list(plan), *_lines(plan.folders.build / _EVER_INSTALLED)}) - set(
        sources
    ):
        (plan.folders.source / name).unlink(missing_ok=True)


def has_packed(plan: Plan) -> bool:
    """Whether the last run packed the sources that are staged now, and was brought to its end."""
    return _lines(plan.folders.build / PACKED_SOURCES) == [staged_sources(plan)]


def staged_sources(plan: Plan) -> str:
    """What tells whether the stage holds the same sources as at another time.

    Not their copies: PyTorch's setup.py writes LICENSE in the stage anew while it packs, with the same content.
    """
    sources = {name: marks[:MARKS_OF_SOURCE] for name, marks in read_state(plan.folders.stage_state).items()}
    return digest(sources)


def check_packed(plan: Plan, wheel: Path) -> tuple[Problem, ...]:
    """What is in the wheel, or was left out of it, otherwise than CMake built and installed it.

    Raises:
        TorchwheelError: the wheel is damaged.
    """
    return _check_copies(plan, wheel) if packs_the_tree(plan) else _check_linked(plan, wheel)


def _check_copies(plan: Plan, wheel: Path) -> tuple[Problem, ...]:
    """What is in the wheel otherwise than in the tree that it was packed from, or was left out of it.

    Libraries that CMake installed count, beside which others are packed, and the modules of every package. setup.py may
    give a library another name: functorch.so is packed as the module functorch._C.
    """
    source = plan.folders.source
    with open_wheel(wheel) as archive:
        members = archive.members
    other = [name for name, info in members.items() if not _is_same(source / name, info)]
    folders = {str(PurePosixPath(name).parent) for name in members}
    contents = {(info.file_size, info.CRC) for info in members.values()}
    libraries = {name for name in _installed(plan) if str(PurePosixPath(name).parent) in folders}
    modules = {name for init in members if init.endswith("/__init__.py") for name in _modules(source, init)}
    missing = sorted(
        {
            *(modules - members.keys()),
            *(name for name in libraries - members.keys() if _content(source / name) not in contents),
        }
    )
    found = {"packed-otherwise": other, "packed-otherwise/missing": missing}
    problems = tuple(
        Problem.of(key, origin=wheel, count=len(names), names=listed(names))
        for key, names in found.items()
        if names
    )
    return (*problems, *_left_over(plan, wheel, members))


def _left_over(plan: Plan, wheel: Path, members: Collection[str]) -> Iterator[Problem]:
    """What an earlier build installed into the tree, this one did not, and setup.py packed nevertheless."""
    installed = _inside(plan, _install_list(plan))
    left = _inside(plan, _lines(plan.folders.build / _EVER_INSTALLED)).intersection(members) - installed
    if not installed or not left or not (left := left - set(source_files(plan.tree.root).files)):
        return
    yield Problem.of(
        "leftovers-packed" if plan.folders.staged else "leftovers-packed/in-place",
        origin=wheel,
        files=listed(sorted(left)),
        tree=plan.tree.root,
    )


def _check_linked(plan: Plan, wheel: Path) -> tuple[Problem, ...]:
    """The libraries that CMake installed, that are not in the wheel, and without which what is in it cannot load.

    A library that nothing in the wheel names may be left out; its own module is what the package torch imports.
    """
    with open_wheel(wheel) as archive:
        held = {PurePosixPath(name).name for name in archive.members}
        installed = map(PurePosixPath, _installed_libraries(plan))
        left_out = [path for path in installed if path.name not in held]
        if not left_out:
            return ()
        absent = {path.name for path in left_out}
        needed: dict[str, list[str]] = {
            path.name: [_PACKAGE]
            for path in left_out
            if path.match(_OWN_MODULE) and _PACKAGE in archive.members
        }
        for member in filter(_SHARED_LIBRARY.search, archive.members):
            # What is no library inside, a linker script for one, names none.
            with archive.unpacked(member) as stream, suppress(TorchwheelError):
                for name in absent.intersection(read_linkage(stream).libraries):
                    needed.setdefault(name, []).append(member)
    return tuple(
        Problem.of(
            "wheel-lacks-library",
            origin=wheel,
            library=name,
            members=listed(members),
            absent=listed(sorted(absent)),
        )
        for name, members in sorted(needed.items())
    )


def _is_same(file: Path, member: zipfile.ZipInfo) -> bool:
    """Whether a member has the content of a file; what is not in the tree is made in packing."""
    if not file.is_file():
        return True
    return file.stat().st_size == member.file_size and _content(file) == (member.file_size, member.CRC)


def _content(file: Path) -> tuple[int, int]:
    """What stands for a file's content in an archive: its size and CRC."""
    size = crc = 0
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return size, crc


def _installed(plan: Plan) -> Iterator[str]:
    """The shared libraries that CMake installed into the tree."""
    yield from (n for n in _inside(plan, _installed_libraries(plan)) if (plan.folders.source / n).is_file())


def _inside(plan: Plan, lines: Iterable[str]) -> set[str]:
    """The paths of a list of installed files that lie in the folder that is built in, relative to it."""
    source = plan.folders.source.resolve()
    paths = (Path(os.path.normpath(line)) for line in lines)
    return {path.relative_to(source).as_posix() for path in paths if source in path.parents}


def _made(plan: Plan) -> Iterator[str]:
    """What ninja makes."""
    return (str(plan.folders.build / output) for output, _ in read_dependencies(plan.folders.build)[1])


def _install_list(plan: Plan) -> list[str]:
    """What CMake installed, from the list that it writes in the end; empty without it."""
    return _lines(plan.folders.build / _INSTALLED)


def _write_lines(file: Path, lines: Collection[str]) -> None:
    atomic_write(file, "\n".join(sorted(lines)).encode(errors="surrogateescape"))


def _lines(file: Path) -> list[str]:
    if not file.is_file():
        return []
    return file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")


def _installed_libraries(plan: Plan) -> list[str]:
    return [line for line in _install_list(plan) if _SHARED_LIBRARY.search(line)]


def _modules(source: Path, init: str) -> Iterator[str]:
    folder = PurePosixPath(init).parent
    yield from (f"{folder}/{path.name}" for path in (source / folder).glob("*.py") if path.is_file())
