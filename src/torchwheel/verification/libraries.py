"""Where the libraries of a wheel find the libraries that they name.

The loader looks for a name in the folders that a library carries (DT_RUNPATH, DT_RPATH) and in the system's, unless a
library of that name is loaded already: torch loads its own, and those of NVIDIA's packages, before any module.
"""

from __future__ import annotations

import posixpath
import re
import sysconfig
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import BinaryIO

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from torchwheel.host.programs import NoAnswer, ask_program, find_program
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.terminal import join_items
from torchwheel.system.paths import exists, is_dir, is_file
from torchwheel.system.toml import read_toml
from torchwheel.verification.claims import Subject
from torchwheel.verification.outcome import Check, not_tried
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.bounded_file import BoundedFile
from torchwheel.wheel.elf import IDENTITY, elf_needs

_DATA = Path(__file__).with_name("libraries.toml")
_CACHED = re.compile(r"^[ \t]{1,8}(\S{1,200}) \([^()\n]{0,200}\) => /", re.MULTILINE)
_ROOT_FOLDERS = "/usr/sbin:/sbin"
_SITE = "<site-packages>"


class Place(Enum):
    """Where a library is found."""

    WHEEL = "in the wheel"
    REQUIREMENT = "of requirements"
    SYSTEM = "of every Linux"
    DRIVER = "of NVIDIA's driver"
    INTERPRETER = "of the interpreter"
    MACHINE = "of this machine"
    OTHER_MACHINE = "of a machine that it is for"


@dataclass(frozen=True)
class Needs:
    """What a library names.

    Attributes:
        path: the library, from the folder that the wheel is installed into.
        names: the libraries that it names.
        folders: where it has them looked for; with ``/`` at the beginning a folder of a machine.
    """

    path: str
    names: tuple[str, ...]
    folders: tuple[str, ...]


def check_libraries(subject: Subject, environment: Mapping[str, str]) -> Check:
    """Look for every library that the wheel's libraries name: in it, in what it requires, and on this machine.

    Args:
        subject: a wheel, or an installed package, whose requirements are installed beside it.

    Raises:
        TorchwheelError: a library is damaged.
    """
    if not subject.contents.libraries:
        return Check("libraries", "it has none")
    if not all("linux" in tag for tag in subject.contents.tags):
        return not_tried("libraries", "which libraries are found can be said of Linux only")
    needs = tuple(_find_needs(subject))
    lookup = _Lookup.of(subject, environment)
    found: dict[Place, set[str]] = defaultdict(set)
    problems = []
    for one in needs:
        missing = []
        for name in one.names:
            place = lookup.place(one, name)
            if place is None:
                missing.append(name)
            else:
                found[place].add(name)
        if missing:
            problems.append(_missing_problem(subject, one, missing))
    parts = [f"{len(found[place])} {place.value}" for place in Place if found[place]]
    said = "1 library" if len(needs) == 1 else f"{len(needs)} libraries"
    said += f"; they need {', '.join(parts)}" if parts else "; no other is needed"
    if machine := sorted(found[Place.MACHINE]):
        said += f": {join_items(machine)}"
    return Check(
        "libraries", said, tuple(problems), {place.name.lower(): sorted(found[place]) for place in Place}
    )


def _missing_problem(subject: Subject, library: Needs, names: Sequence[str]) -> Problem:
    folders = ", ".join(folder or _SITE for folder in library.folders)
    return Problem.of(
        "library-not-found" if folders else "library-not-found/no-folders",
        origin=subject.path,
        library=library.path,
        needed=join_items(names),
        folders=folders,
    )


def _find_needs(subject: Subject) -> Iterator[Needs]:
    if subject.site is not None:
        for library in subject.contents.libraries:
            file = subject.site / installed_path(library.path)
            # Scripts and data lie elsewhere.
            if is_file(file):
                with file.open("rb") as stream:
                    yield from _read(stream, library.path, subject)
        return
    with open_wheel(subject.path) as archive:
        for library in subject.contents.libraries:
            if next(iter(archive.chunks(library.path)), b"").startswith(IDENTITY):
                with archive.unpacked(library.path) as stream:
                    yield from _read(stream, library.path, subject)


def _read(stream: BinaryIO, path: str, subject: Subject) -> Iterator[Needs]:
    file = BoundedFile.of(stream, f"{subject.path}: {path}")
    if file.read(0, min(file.length, len(IDENTITY))) != IDENTITY:
        return
    names, search_path = elf_needs(file)
    here = posixpath.dirname(installed_path(path))
    folders = (_resolve_entry(entry, here) for entry in search_path)
    yield Needs(path, names, tuple(dict.fromkeys(folders)))


def installed_path(path: str) -> str:
    """Where a member of a wheel lies once it is installed: ``NAME.data/purelib`` and ``platlib`` are not there then."""
    parts = path.split("/")
    in_data = len(parts) > 2 and parts[0].endswith(".data") and parts[1] in ("purelib", "platlib")
    return "/".join(parts[2:]) if in_data else path


def _resolve_entry(entry: str, here: str) -> str:
    """A folder of a search path, from the folder that the wheel is installed into where it is relative to a library."""
    # The loader accepts both spellings.
    entry = entry.replace("${ORIGIN}", "$ORIGIN")
    if not entry.startswith("$ORIGIN"):
        return entry
    folder = posixpath.normpath(posixpath.join(here, entry.removeprefix("$ORIGIN").lstrip("/") or "."))
    return "" if folder == "." else folder


@dataclass(frozen=True)
class _Lookup:
    """What there is to be found.

    Attributes:
        own: the wheel's files.
        names: the names of all of them, and of an installed package's neighbours.
        site: the folder that it is installed in; None for a wheel.
        distributions: what the wheel requires, by normalised names.
        machine: the names of the libraries in this system's folders; None where the wheel is for another.
    """

    own: frozenset[str]
    names: frozenset[str]
    site: Path | None
    distributions: frozenset[str]
    machine: frozenset[str] | None

    @classmethod
    def of(cls, subject: Subject, environment: Mapping[str, str]) -> _Lookup:
        own = frozenset(map(installed_path, subject.files))
        names = {posixpath.basename(path) for path in own}
        return cls(
            own,
            frozenset(names),
            subject.site,
            frozenset(required_names(subject.contents.metadata.requires_dist)),
            frozenset(_machine_libraries(environment)) if _is_for_here(subject) else None,
        )

    def place(self, library: Needs, name: str) -> Place | None:
        """Where a library finds another; None for nowhere."""
        for folder in library.folders:
            if folder.startswith("/"):
                if exists(Path(folder, name)):
                    return Place.MACHINE
            elif posixpath.join(folder, name) in self.own:
                return Place.WHEEL
            elif self.site is not None and exists(self.site / folder / name):
                return Place.REQUIREMENT
        # Something else of the wheel may have loaded it before.
        if name in self.names:
            return Place.WHEEL
        for place, patterns in _read_usual_places():
            if _matches_any(name, patterns):
                return place
        if self._is_brought(name):
            return Place.REQUIREMENT
        if self.machine is None:
            return Place.OTHER_MACHINE
        return Place.MACHINE if name in self.machine else None

    def _is_brought(self, name: str) -> bool:
        """Whether a requirement is known to bring a library, and, where it is installed, has it."""
        for distributions, patterns in _read_brought_libraries():
            if _matches_any(name, patterns):
                if self.site is not None:
                    return any(self.site.glob(f"*/lib/{name}")) or any(self.site.glob(f"*/*/lib/{name}"))
                return any(_matches_any(one, distributions) for one in self.distributions)
        return False


def _is_for_here(subject: Subject) -> bool:
    machine = sysconfig.get_platform().rpartition("-")[2]
    return all(tag.endswith(f"_{machine}") for tag in subject.contents.tags)


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@cache
def _read_usual_places() -> tuple[tuple[Place, tuple[str, ...]], ...]:
    data = read_toml(_DATA)
    places = (Place.SYSTEM, Place.DRIVER, Place.INTERPRETER)
    return tuple((place, tuple(data[place.name.lower()]["libraries"])) for place in places)


@cache
def _read_brought_libraries() -> tuple[tuple[Sequence[str], Sequence[str]], ...]:
    return tuple((row["distributions"], row["libraries"]) for row in read_toml(_DATA)["requirement"])


def required_names(requires_dist: Iterable[str]) -> Iterator[str]:
    """The normalised names of what METADATA requires on this machine without extras."""
    for text in requires_dist:
        try:
            requirement = Requirement(text)
        except (InvalidRequirement, RecursionError):
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def _machine_libraries(environment: Mapping[str, str]) -> Iterator[str]:
    """The names of the libraries that this system's loader knows, and of those in LD_LIBRARY_PATH."""
    for folder in filter(None, environment.get("LD_LIBRARY_PATH", "").split(":")):
        if is_dir(Path(folder)):
            yield from (path.name for path in Path(folder).glob("*.so*"))
    # An ordinary user's PATH may lack root's folders, where ldconfig is.
    program = find_program("ldconfig", f"{environment.get('PATH', '')}:{_ROOT_FOLDERS}")
    if program is not None:
        try:
            yield from _CACHED.findall(ask_program([program, "-p"], environment).stdout)
        except NoAnswer:
            return
