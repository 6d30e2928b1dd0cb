"""Where the libraries of a wheel find the libraries that they name, and whether its tags say what they are.

Only what Python reaches by importing the wheel's modules decides. Everything else may be for another machine, or for a
part that is chosen when the program runs.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from packaging.utils import canonicalize_name

from torchwheel.proof import Check, not_tried
from torchwheel.proof.loading import MODULE, LoadedFile, Lookup, find_lookups, read_files
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.terminal import count_noun, join_items
from torchwheel.system.toml import read_toml
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.metadata import parse_requirements
from torchwheel.wheel.objfile import LibraryFormat, platform_problems, read_machines, without_libc

_DATA = Path(__file__).with_name("libraries.toml")
_CPYTHON = re.compile(r"cp(\d)(\d{1,3})")
_NVIDIA = ("cuda-toolkit", "nvidia-*")
_ANY_PYTHON = "3.12"
_OLDEST_LIBC = "2_17"
_LIBC_SERIES, _CXX_SERIES = "GLIBC_", ("GLIBCXX_", "CXXABI_")


class Place(Enum):
    WHEEL = "in the wheel"
    REQUIREMENT = "of requirements"
    SYSTEM = "of every Linux"
    DRIVER = "of NVIDIA's driver"
    INTERPRETER = "of the interpreter"
    TORCH = "of the torch that it runs beside"
    EXTRA = "of its extras"
    MACHINE = "of the machine"
    UNKNOWN = "that one of its requirements may bring"


_NOT_PROMISED = (Place.TORCH, Place.EXTRA, Place.MACHINE, Place.UNKNOWN)


def check_libraries(contents: WheelContents) -> Check:
    """Follow the loader of Linux from every module that Python imports."""
    if not contents.libraries:
        return Check("libraries", "it has none")
    if any("macosx" in tag for tag in contents.tags):
        return not_tried("libraries", "the files of macOS are not read")
    files = read_files(contents)
    roots = _find_roots(contents, files)
    partial = _find_partial(contents, roots)
    notes = list(partial.values())
    roots = [root for root in roots if root.path not in partial]
    problems = list(_find_false_tags(contents, roots, files))
    if roots and [one.lower() for one in contents.wheel.values("Root-Is-Purelib")] == ["true"]:
        values = {"field": "WHEEL's Root-Is-Purelib", "detail": f"{roots[0].path} is for one platform"}
        problems.append(Problem.of("field-not-valid", origin=contents.path, **values))
    is_linux = all("linux" in tag for tag in contents.tags)
    lookups = find_lookups(files, roots, contents.site) if is_linux else ()
    reached = {file.path for file in roots} | {one.found for one in lookups}
    for file in files.values():
        if file.path in reached:
            if fault := file.linkage.fault:
                values = {"library": file.path, "fault": fault}
                problems.append(Problem.of("library-not-loadable", origin=contents.path, **values))
            problems += _find_newer(contents, file, files, _LIBC_SERIES)
    if not is_linux:
        said = f"{count_noun(len(roots), 'module')} against the tags; libraries are followed on Linux only"
        return Check("libraries", said, tuple(problems), tried=False)
    places = _Places.of(contents, files)
    found, missing = _sort_lookups(lookups, files, places)
    problems += [_missing_problem(contents, each) for each in missing]
    parts = [f"{len(found[place])} {place.value}" for place in Place if found[place]]
    loaded = [file for file in files.values() if file.path in reached]
    said = f"{count_noun(len(roots), 'module')} and {len(loaded) - len(roots)} that they load, "
    said += f"of {count_noun(len(files), 'file')}; they need {', '.join(parts) or 'no other'}"
    for place in _NOT_PROMISED:
        if names := sorted(found[place]):
            values = {"needed": join_items(names), "place": place.value}
            notes.append(Problem.of("library-from-elsewhere", origin=contents.path, **values))
    # Only the machine decides about GCC's C++ library, which may be newer than its C library.
    newer = [problem for file in loaded for problem in _find_newer(contents, file, files, _CXX_SERIES)]
    notes += newer[:1]
    figures = {place.name.lower(): sorted(found[place]) for place in Place}
    return Check("libraries", said, tuple(problems), figures, notes=tuple(notes))


def _sort_lookups(
    lookups: Collection[Lookup], files: Mapping[str, LoadedFile], places: _Places
) -> tuple[Mapping[Place, set[str]], Iterable[list[Lookup]]]:
    """The names that are found by place, and the lookups of each library that find nothing."""
    found: dict[Place, set[str]] = defaultdict(set)
    missing: dict[str, list[Lookup]] = defaultdict(list)
    led = {one.found for one in lookups if one.is_led}
    for one in lookups:
        place = Place.WHEEL if one.found in files or one.is_led else places.find(one.name)
        # Where no search path leads to it, another module must have loaded it.
        if place is None or (one.found and not one.is_led and one.found not in led):
            missing[one.library.path].append(one)
        else:
            found[place].add(one.name)
    return found, missing.values()


def needs_torch_beside(contents: WheelContents) -> bool:
    """Whether its libraries need a torch that it does not require."""
    places = _Places.of(contents, files := read_files(contents))
    return any(places.find(name) is Place.TORCH for file in files.values() for name in file.linkage.libraries)


def _find_roots(contents: WheelContents, files: Mapping[str, LoadedFile]) -> list[LoadedFile]:
    """The modules that Python imports, and those of a build manifest, which may be loaded by torch.ops."""
    planned = [one["file"] for one in contents.plan.get("extensions", {}).get("modules", ())]
    systems = {"pyd" if tag.endswith(("win32", "win_amd64", "win_arm64")) else "so" for tag in contents.tags}
    systems |= {"pyd"} if any(tag.endswith("-any") for tag in contents.tags) else set()
    return [
        file
        for file in files.values()
        if (file.is_module and file.path.rpartition(".")[2] in systems) or file.member in planned
    ]


def _find_false_tags(
    contents: WheelContents, roots: Sequence[LoadedFile], files: Mapping[str, LoadedFile]
) -> Iterator[Problem]:
    known = _pythons_by_module(roots)
    for tag in contents.tags:
        python, abi, platform = tag.split("-")
        platform = without_libc(platform)
        for file in _find_bound(files) if platform == "any" else roots:
            pythons = _find_pythons(file, known)
            values = {"origin": contents.path, "tag": tag, "module": file.path}
            if fault := _find_misfit(file, platform):
                yield Problem.of("tag-not-proved", found=fault, **values)
            elif pythons and not _are_tagged(pythons, python, abi):
                yield Problem.of("tag-not-proved", found=f"CPython {', '.join(pythons)} alone", **values)


def _find_partial(contents: WheelContents, roots: Sequence[LoadedFile]) -> dict[str, Problem]:
    """The modules for one Python beside those for all that a tag names, which their package does without elsewhere."""
    tag = next((tag for tag in contents.tags if "-abi3-" in tag), None)
    if tag is None:
        return {}
    known = _pythons_by_module(roots)
    pythons = {root.path: _find_pythons(root, known) for root in roots}
    if all(pythons.values()):
        return {}
    values = {"origin": contents.path, "tag": tag}
    return {
        path: Problem.of(
            "module-for-one-python", module=path, found=f"CPython {', '.join(own)} alone", **values
        )
        for path, own in pythons.items()
        if own
    }


def _find_bound(files: Mapping[str, LoadedFile]) -> list[LoadedFile]:
    """What binds a wheel to a platform: modules, and ELF libraries that are all for one machine.

    Launchers and assemblies of .NET are for Windows in wheels for any platform, and some have libraries for several.
    """
    elf = [file for file in files.values() if file.linkage.format is LibraryFormat.ELF]
    is_one = len({file.linkage.machine for file in elf}) == 1
    return [file for file in files.values() if file.is_module or (file in elf and is_one)]


def _find_misfit(file: LoadedFile, platform: str) -> str:
    """For which machine a module is, if not for that of a tag; empty where it is."""
    machines = {number: name for name, number in read_machines().items()}
    number = file.linkage.machine
    own = machines.get(number, f"machine {number}") if number else ""
    if own in ("", platform):
        match = MODULE.fullmatch(posixpath.basename(file.path))
        suffix = (match and match["platform"]) or ""
        own = suffix if suffix.startswith("win") or not suffix else f"linux_{suffix.split('-')[0]}"
    return "" if own in ("", platform) else own


def _pythons_by_module(modules: Iterable[LoadedFile]) -> Mapping[tuple[str, str], set[str | None]]:
    """The Pythons that the files of each module are for, by folder and name; None for every Python."""
    found: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for one in modules:
        folder, name = posixpath.split(one.path)
        if match := MODULE.fullmatch(name):
            found[folder, match["name"]].add(match["python"])
    return found


def _find_pythons(module: LoadedFile, known: Mapping[tuple[str, str], set[str | None]]) -> list[str]:
    """The Pythons that alone find a module, of which there may be a file for each; none where every Python does."""
    folder, name = posixpath.split(module.path)
    match = MODULE.fullmatch(name)
    own = {match["python"], *known.get((folder, match["name"]), ())} if match else set()
    pythons = sorted(filter(None, own))
    return pythons if len(pythons) == len(own) else []


def _are_tagged(pythons: Sequence[str], python: str, abi: str) -> bool:
    if abi == "none":
        return len(pythons) > 1 or python.removeprefix("cp") in pythons
    return abi.removeprefix("cp") in pythons


def _find_newer(
    contents: WheelContents, file: LoadedFile, files: Mapping[str, LoadedFile], series: str | tuple[str, ...]
) -> Iterator[Problem]:
    """Yield where a library needs a newer system than a tag promises."""
    own = {posixpath.basename(path) for path in files}
    versions = [
        one for one in file.linkage.versions if one.library not in own and one.version.startswith(series)
    ]
    needs = replace(file.linkage, versions=tuple(versions))
    for platform in sorted({tag.split("-")[2] for tag in contents.tags}):
        # No supported Python and no CUDA runs on an older one, so some wheels still have the first tags.
        promised = re.sub(r"^manylinux(?:1|2010|_2_5|_2_12)_", f"manylinux_{_OLDEST_LIBC}_", platform)
        yield from platform_problems(needs, promised, f"{contents.path}: {file.path}")


def _missing_problem(contents: WheelContents, lookups: Sequence[Lookup]) -> Problem:
    library = lookups[0].library
    folders = ", ".join(folder or "<site-packages>" for folder in library.folders)
    inside = [one.found for one in lookups if one.found]
    values = {
        "origin": contents.path,
        "library": library.path,
        "needed": join_items([one.name for one in lookups]),
        "folders": folders or "no folder of its own",
    }
    if inside:
        return Problem.of("library-not-found/search-path", found=join_items(inside), **values)
    return Problem.of("library-not-found", **values)


@dataclass(frozen=True)
class _Places:
    """Where a name that is not in the wheel may be found.

    Attributes:
        beside_torch: whether it runs beside a torch, which need not be among its requirements.
        required: the distributions that it requires, by normalised names.
        promises: whether a tag says what the machine must have.
    """

    beside_torch: bool
    required: frozenset[str]
    extras: frozenset[str]
    promises: bool

    @classmethod
    def of(cls, contents: WheelContents, files: Mapping[str, LoadedFile]) -> _Places:
        needed = {name for file in files.values() for name in file.linkage.libraries}
        torch = _read_brought_libraries()[0][1]
        requires = contents.metadata.requires_dist
        return cls(
            not contents.has_torch and any(_matches_any(name, torch) for name in needed),
            frozenset(required_names(requires, contents.tags)),
            frozenset(
                canonicalize_name(one.name)
                for one in parse_requirements(requires).values()
                if "extra" in str(one.marker or "")
            ),
            any("manylinux" in tag or "musllinux" in tag for tag in contents.tags),
        )

    def find(self, name: str) -> Place | None:
        """Where a machine has a library; None for nowhere that the wheel names."""
        for place, patterns in _read_usual_places():
            if _matches_any(name, patterns):
                return place
        bringing = [names for names, patterns in _read_brought_libraries() if _matches_any(name, patterns)]
        if not bringing:
            # What packages bring is known of a few alone.
            return Place.MACHINE if not self.promises else Place.UNKNOWN if self.required else None
        distributions = [pattern for names in bringing for pattern in names]
        if any(_matches_any(one, distributions) for one in self.required):
            return Place.REQUIREMENT
        if self.beside_torch and "torch" in distributions:
            return Place.TORCH
        if any(_matches_any(one, distributions) for one in self.extras):
            return Place.EXTRA
        # A build with the machine's CUDA requires none of NVIDIA's packages; one that requires some lacks this one.
        own_cuda = not self.promises and not any(_matches_any(one, _NVIDIA) for one in self.required)
        return Place.MACHINE if own_cuda and distributions != ["torch"] else None


def _matches_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@cache
def _read_usual_places() -> tuple[tuple[Place, tuple[str, ...]], ...]:
    data = read_toml(_DATA)
    places = (Place.SYSTEM, Place.DRIVER, Place.INTERPRETER)
    return tuple((place, tuple(data[place.name.lower()]["libraries"])) for place in places)


@cache
def _read_brought_libraries() -> tuple[tuple[Sequence[str], Sequence[str]], ...]:
    groups = read_toml(_DATA)["requirement"]
    return tuple((row["distributions"], row["libraries"]) for group in groups for row in group["packages"])


def required_names(requires_dist: Iterable[str], tags: Collection[str]) -> Iterator[str]:
    """The normalised names of what METADATA requires without extras, on a machine that the wheel is for."""
    python = next((match for tag in tags if (match := _CPYTHON.match(tag))), None)
    machine = next((one for tag in tags if (one := without_libc(tag).partition("linux_")[2])), "x86_64")
    environment = {
        "extra": "",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_system": "Linux",
        "python_version": f"{python[1]}.{python[2]}" if python else _ANY_PYTHON,
        "sys_platform": "linux",
    }
    for requirement in parse_requirements(requires_dist).values():
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield canonicalize_name(requirement.name)
