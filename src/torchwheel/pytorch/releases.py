"""Every PyTorch release since 2.0: toolkits and compilers that build it, its CMake options and its published wheels."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from torchwheel.hardware.arch import ArchitectureList, Verdict, judge_code, parse_architectures
from torchwheel.hardware.architecture import Architecture
from torchwheel.host.machine import Host
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import at_least, major_minor, parse_numbers

_FOLDER = Path(__file__).parent
_PUBLISHED = _FOLDER / "published.toml"
_MACOS = re.compile(r"(?<=^macosx_)(\d+)_(\d+)_")
# auditwheel adds a part of the hash to the name of each library that it bundles.
_HASH = re.compile(r"-[0-9a-f]{8}$")

COMPILERS = ("gcc", "clang", "msvc")
"""Compiler kinds, as in a host's description."""
_MORE = ("instead", "unconditional", "labelled", "partial", "makes")


class CudaSupport(Enum):
    ACCEPTED = "accepted"
    """Between the tree's minimum and the newest that it was built with."""
    TOO_OLD = "too-old"
    """The tree's CMake refuses it."""
    FAILS = "fails"
    """Newer than the tree supports, and known not to compile."""
    UNTRIED = "untried"
    """Newer than any known build of the release."""
    UNKNOWN = "unknown"
    """The release is unknown, or the tree's own CMake files disagree with the table."""


@dataclass(frozen=True)
class CudaRange:
    """The CUDA toolkits to build a release with.

    Attributes:
        before_turing: the one that PyTorch itself tests for GPUs before Turing where no official build is for these.
    """

    minimum: str
    newest: str
    fails_from: str | None
    before_turing: str | None = None


class CudnnRange(NamedTuple):
    minimum: str
    newest_major: int


@dataclass(frozen=True)
class CompilerNeed:
    """The minimum version of a compiler (MSVC's own: 19.29), and the C++ standard that requires it, if one does."""

    version: str
    cxx_standard: int | None


@dataclass(frozen=True)
class Compilers:
    """The compilers for a release: its C++ standard, and the versions that it states itself, by kind."""

    cxx_standard: int
    stated: Mapping[str, str] = field(hash=False)

    def minimum_version(self, compiler: str) -> CompilerNeed | None:
        """The release's own minimum of a compiler kind, or the first compiler with its C++ standard if newer."""
        stated = self.stated.get(compiler)
        first = cxx_supports().get((self.cxx_standard, compiler))
        if first is not None and (stated is None or not at_least(stated, first)):
            return CompilerNeed(first, self.cxx_standard)
        return None if stated is None else CompilerNeed(stated, None)


@dataclass(frozen=True)
class PytorchRelease:
    """One release of PyTorch; the releases of a minor version differ only in their published builds."""

    version: str
    requires_python: str
    cuda: CudaRange
    cudnn: CudnnRange
    compilers: Compilers
    cmake_below: str | None = None
    python_fails_from: str | None = None

    @property
    def minor_version(self) -> str:
        return major_minor(self.version)

    def cuda_accepts(self, version: str) -> CudaSupport:
        version = major_minor(version)
        if not parse_numbers(version):
            return CudaSupport.UNKNOWN
        if self.cuda.fails_from is not None and at_least(version, self.cuda.fails_from):
            return CudaSupport.FAILS
        if not at_least(self.cuda.newest, version):
            return CudaSupport.UNTRIED
        return CudaSupport.ACCEPTED if at_least(version, self.cuda.minimum) else CudaSupport.TOO_OLD

    def lacks_option(self, name: str) -> bool:
        """Whether this release is known to lack a CMake option, or no release has it."""
        option = build_options().get(name)
        return option is None or option.is_lacked_by(self.version)


@dataclass(frozen=True)
class ReleaseCatalogue:
    """The known releases, oldest first."""

    by_version: Mapping[str, PytorchRelease]

    def release(self, version: str) -> PytorchRelease | None:
        """Return the nearest release of a version's minor version; None if there is none.

        That is the last one not later than it, else the first: ``2.14.1+cu130`` and ``2.14.1a0`` are 2.14.1, ``2.14``
        is the last release of 2.14.
        """
        wanted = parse_numbers(version)
        if len(wanted) < 2:
            return None
        same = [one for one in self if parse_numbers(one.version, 2) == wanted[:2]]
        not_later = [one for one in same if len(wanted) == 2 or parse_numbers(one.version) <= wanted]
        return not_later[-1] if not_later else next(iter(same), None)

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(self.by_version)

    def __iter__(self) -> Iterator[PytorchRelease]:
        return iter(self.by_version.values())


@cache
def read_releases() -> ReleaseCatalogue:
    data = shipped_toml(_FOLDER / "releases.toml")
    found = (_read_release(data, row, patch) for row in data["releases"] for patch in row["patches"])
    return ReleaseCatalogue({release.version: release for release in found})


def nvcc_bug(cuda: str, system: str) -> Mapping[str, str] | None:
    """The known bug of a CUDA release, ``12.9``, on a system, ``Windows``, as the table has it; None for none."""
    rows: Iterable[Mapping[str, str]] = shipped_toml(_FOLDER / "releases.toml")["nvcc-bug"]
    wanted = (major_minor(cuda), system)
    return next((row for row in rows if (row["cuda"], row["system"]) == wanted), None)


@cache
def cxx_supports() -> Mapping[tuple[int, str], str]:
    """The first compiler versions with a C++ standard: ``(17, "gcc")`` to ``7``."""
    rows = shipped_toml(_FOLDER / "cxx_standards.toml")["supports"]
    return {(row["standard"], row["compiler"]): row["minimum"] for row in rows}


def _read_release(data: Mapping[str, Any], row: Mapping[str, Any], patch: int) -> PytorchRelease:
    cuda, cudnn, compilers = (
        [entry for entry in data[table] if at_least(row["version"], entry["since"])][-1]
        for table in ("cuda", "cudnn", "compilers")
    )
    stated = {kind: compilers[kind] for kind in COMPILERS if kind in compilers}
    return PytorchRelease(
        version=f"{row['version']}.{patch}",
        requires_python=row["requires-python"],
        cuda=CudaRange(cuda["minimum"], cuda["newest"], cuda.get("fails-from"), cuda.get("before-turing")),
        cudnn=CudnnRange(cudnn["minimum"], cudnn["newest-major"]),
        compilers=Compilers(compilers["cxx-standard"], stated),
        cmake_below=row.get("cmake-below"),
        python_fails_from=row.get("python-fails-from"),
    )


def cmake_below(version: str, old_projects: Sequence[str] | None) -> str | None:
    """Return the first CMake that is too new for a tree; None for none.

    Args:
        old_projects: the projects in the tree that CMake 4 refuses; None if their sources are missing, and the
            table of releases decides.
    """
    # The tree itself, because a development version such as 2.7.0a0 may or may not have a change of 2.7.
    if old_projects is not None:
        # The first CMake that refuses them.
        return "4" if old_projects else None
    release = read_releases().release(version)
    return release.cmake_below if release is not None else None


def bounded_requires(
    requires: tuple[str, ...], below: str | None, variables: Container[str]
) -> tuple[str, ...]:
    """Limit the CMake in a tree's build requirements: up to 2.6 they have no upper bound, so pip would install 4."""
    # The variable that makes CMake 4 accept projects that require a CMake older than 3.5.
    if below is None or "CMAKE_POLICY_VERSION_MINIMUM" in variables:
        return requires
    return tuple(_exclude_from(below, text) for text in requires)


def _exclude_from(version: str, text: str) -> str:
    requirement = Requirement(text)
    allows = requirement.url is None and requirement.specifier.contains(version, prereleases=True)
    if requirement.name.lower() != "cmake" or not allows:
        return text
    requirement.specifier &= SpecifierSet(f"<{version}")
    return str(requirement)


@dataclass(frozen=True)
class BuildOption:
    """One CMake option; ``lacked_to`` and ``lacked_from`` are minor versions known not to have it yet, or any more.

    Attributes:
        unconditional: whether releases that dropped it always build its part.
        labelled: whether the wheel's label names it where it differs from the tree's default.
        partial: the value with which the wheel is not PyTorch's whole one.
    """

    name: str
    first: str
    last: str
    since: str | None
    until: str | None
    lacked_to: str | None
    lacked_from: str | None
    instead: str = ""
    unconditional: bool = False
    labelled: bool = True
    partial: bool | None = None
    makes: str = ""

    def is_lacked_by(self, version: str) -> bool:
        """Whether a release is known to lack the option; a release between two known trees may be undecided."""
        minor = parse_numbers(version, 2)
        since, until, lacked_to, lacked_from = (
            parse_numbers(one, 2) if one is not None else None
            for one in (self.since, self.until, self.lacked_to, self.lacked_from)
        )
        is_yet_to_come = (since and minor < since) or (lacked_to and minor <= lacked_to)
        return bool(is_yet_to_come or (until and minor > until) or (lacked_from and minor >= lacked_from))


@cache
def build_options() -> Mapping[str, BuildOption]:
    """The CMake options that torchwheel knows, by name: for builds without a tree, and for those of other releases."""
    data = shipped_toml(_FOLDER / "options.toml")
    trees = {row["version"]: row.get("early", False) for row in data["trees"]}
    found = {name: _read_option(name, row, trees) for row in data["option"] for name in row["names"]}
    return dict(sorted(found.items()))


def _read_option(name: str, row: Mapping[str, Any], is_early: Mapping[str, bool]) -> BuildOption:
    since, until = row.get("since"), row.get("until")
    having = sorted(filter(None, (*row.get("seen", ()), since, until)), key=parse_numbers)
    lacking = sorted(row.get("absent", ()), key=parse_numbers)
    earlier = [version for version in lacking if parse_numbers(version) < parse_numbers(having[0])]
    later = [version for version in lacking if parse_numbers(version) > parse_numbers(having[-1])]
    lacked_to = earlier[-1] if earlier else None
    if lacked_to is not None and is_early[lacked_to]:
        # The tree is older than that version's branch, so what it lacks may have come with that version.
        major, minor = parse_numbers(lacked_to, 2)
        lacked_to = f"{major}.{minor - 1}"
    more = {key: row[key] for key in _MORE if key in row}
    lacked_from = later[0] if later else None
    return BuildOption(name, having[0], having[-1], since, until, lacked_to, lacked_from, **more)


@dataclass(frozen=True)
class PublishedBuild:
    """One official build of a release for a platform, with a wheel for each of its Pythons.

    Attributes:
        label: the local version label of its wheels and the name of PyTorch's index, ``cu130`` or ``cpu``.
        on_pypi: whether it is the build on PyPI, where it has no label.
        parts: libraries that are loaded on use and have less device code, with that code.
    """

    torch: str
    platform: str
    label: str
    on_pypi: bool
    python: tuple[str, ...]
    code: ArchitectureList | None
    parts: tuple[tuple[str, ArchitectureList], ...] = ()

    @property
    def cuda(self) -> str | None:
        # The minor version of CUDA has one digit, the major version may have two: cu130.
        digits = self.label.removeprefix("cu")
        return None if self.label == "cpu" else f"{digits[:-1]}.{digits[-1]}"

    @property
    def pip_arguments(self) -> tuple[str, ...]:
        url = shipped_toml(_PUBLISHED)["index"]["url"]
        index = () if self.on_pypi else ("--index-url", f"{url}/{self.label}")
        return (f"torch=={self.torch}", *index)

    @property
    def command(self) -> str:
        # No word needs quotes in any shell.
        return " ".join(("pip", "install", *self.pip_arguments))


def published_builds(
    release: PytorchRelease, platform_tag: str, python_tag: str | None = None
) -> tuple[PublishedBuild, ...]:
    """The official builds of a release for a platform (``linux_x86_64``) and a Python (``cp314t``; None for any).

    PyPI's build comes first, then the others by CUDA version, newest first, then ``cpu``.
    """
    builds = _read_published().get((release.version, _MACOS.sub("", platform_tag)), ())
    return tuple(build for build in builds if python_tag is None or python_tag in build.python)


def index_is_known(release: PytorchRelease) -> bool:
    """Whether the builds of a release on PyTorch's own index are known, not only those on PyPI."""
    return parse_numbers(release.version) <= parse_numbers(shipped_toml(_PUBLISHED)["index"]["known-until"])


@cache
def _oldest_systems() -> Mapping[tuple[str, str], str]:
    return _by_release(shipped_toml(_PUBLISHED)["oldest"]["wheels"], "minimum")


def official_wheels_install(release: PytorchRelease, host: Host) -> bool | None:
    """Whether pip accepts the official wheels on a machine: their tag names a glibc or macOS. None if not known."""
    macos, platform = _MACOS.search(host.platform_tag), _MACOS.sub("", host.platform_tag)
    needed = _oldest_systems().get((release.version, platform))
    if needed is None or host.musl:
        return needed is None
    has = ".".join(macos.groups()) if macos else host.glibc
    return None if has is None else at_least(has, needed)


@cache
def included_options() -> frozenset[str]:
    """The options that are on in the official builds."""
    return frozenset(shipped_toml(_PUBLISHED)["included"]["options"])


def published_pythons(release: PytorchRelease, platform_tag: str) -> tuple[str, ...]:
    """The minor versions of Python with official builds of a release, ``"3.14"``, oldest first."""
    tags = {tag.rstrip("t") for build in published_builds(release, platform_tag) for tag in build.python}
    return tuple(f"3.{minor}" for minor in sorted(int(tag.removeprefix("cp3")) for tag in tags))


@cache
def _read_published() -> Mapping[tuple[str, str], tuple[PublishedBuild, ...]]:
    data = shipped_toml(_PUBLISHED)
    pythons = _by_release(data["python"]["wheels"], "tags")
    on_pypi = _by_release(data["pypi"]["wheels"], "label")
    parts: dict[tuple[str, str, str], list[tuple[str, ArchitectureList]]] = {}
    for row in data["part"]:
        for version in _releases_between(row):
            part = (_purposes_of_libraries()[row["library"]], parse_architectures(row["code"]))
            parts.setdefault((version, row["platform"], row["label"]), []).append(part)
    found: dict[tuple[str, str], list[PublishedBuild]] = {}
    for row in (row for group in data["build"] for row in group["wheels"]):
        code, label = parse_architectures(row["code"]) if "code" in row else None, row["label"]
        for key in product(_releases_between(row), row["platforms"]):
            lesser = tuple(parts.get((*key, label), ()))
            build = PublishedBuild(*key, label, on_pypi.get(key) == label, tuple(pythons[key]), code, lesser)
            found.setdefault(key, []).append(build)
    for builds in found.values():
        builds.sort(key=lambda one: (not one.on_pypi, [-number for number in parse_numbers(one.cuda or "0")]))
    return {key: tuple(builds) for key, builds in found.items()}


def optional_part(library: str) -> str | None:
    """The feature of torch that a library (its path or name) provides, which is loaded only on use; None for others."""
    name = PurePosixPath(library).name.partition(".")[0].removeprefix("lib")
    return _purposes_of_libraries().get(_HASH.sub("", name))


@cache
def _purposes_of_libraries() -> Mapping[str, str]:
    return {row["name"]: row["used_by"] for row in shipped_toml(_PUBLISHED)["library"]}


def _by_release(rows: Iterable[Mapping[str, Any]], value: str) -> dict[tuple[str, str], Any]:
    return {key: row[value] for row in rows for key in product(_releases_between(row), row["platforms"])}


def _releases_between(row: Mapping[str, Any]) -> tuple[str, ...]:
    versions = read_releases().versions
    return versions[versions.index(row["since"]) : versions.index(row["until"]) + 1]


@dataclass(frozen=True)
class RunningBuild:
    """An official build that runs on a GPU or, without a verdict, on the CPU; ``without`` are parts that do not."""

    build: PublishedBuild
    verdict: Verdict | None
    without: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[bool, int]:
        return bool(self.without), self.verdict.how.rank if self.verdict else 0

    @property
    def sentence(self) -> str:
        how = self.verdict.sentence if self.verdict else "it needs no GPU"
        return "; ".join([how, *(f"except {part}" for part in self.without)])


def published_builds_that_run(
    release: PytorchRelease, platform_tag: str, python_tag: str | None, gpu_capability: Architecture
) -> tuple[RunningBuild, ...]:
    """The official builds of a release that run on a GPU, best first, whatever its driver.

    All of torch is better than a part of it, native machine code better than that for an earlier minor revision,
    and that better than PTX; of equals PyPI's comes first, then the newest CUDA.
    """
    found = []
    for build in published_builds(release, platform_tag, python_tag):
        answer = judge_code(build.code.targets, gpu_capability) if build.code else None
        if answer and answer.how.runs:
            parts = ((part, judge_code(code.targets, gpu_capability)) for part, code in build.parts)
            without = tuple(part for part, verdict in parts if not verdict.how.runs)
            found.append(RunningBuild(build, answer, without))
    # Stable, so equals keep the order of the builds.
    return tuple(sorted(found, key=lambda running: running.rank))
