"""The wheels that PyTorch publishes (`published.toml`), the GPUs they run on, and the commands to install them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any

from torchwheel.hardware.arch import ArchitectureList, Verdict, judge_code, parse_architectures
from torchwheel.hardware.architecture import Architecture
from torchwheel.host.machine import Host
from torchwheel.pytorch.releases import PytorchRelease, read_releases
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import at_least, parse_numbers

PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64")

_FILE = Path(__file__).with_name("published.toml")
# auditwheel adds a part of the hash to the name of each library that it bundles.
_HASH = re.compile(r"-[0-9a-f]{8}$")


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
        index = () if self.on_pypi else ("--index-url", f"{shipped_toml(_FILE)['index']['url']}/{self.label}")
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
    builds = _read_published().get((release.version, platform_tag), ())
    return tuple(build for build in builds if python_tag is None or python_tag in build.python)


def index_is_known(release: PytorchRelease) -> bool:
    """Whether the builds of a release on PyTorch's own index are known, not only those on PyPI."""
    return parse_numbers(release.version) <= parse_numbers(shipped_toml(_FILE)["index"]["known-until"])


@cache
def _published_glibc() -> Mapping[tuple[str, str], str]:
    return _by_release(shipped_toml(_FILE)["glibc"]["wheels"], "minimum")


def official_wheels_install(release: PytorchRelease, host: Host) -> bool | None:
    """Whether pip accepts the official wheels on a machine: their tag requires a glibc. None if that is not known."""
    needed = _published_glibc().get((release.version, host.platform_tag))
    if needed is None or host.musl:
        return needed is None
    return None if host.glibc is None else at_least(host.glibc, needed)


@cache
def included_options() -> frozenset[str]:
    """The options that are on in the official builds."""
    return frozenset(shipped_toml(_FILE)["included"]["options"])


def published_pythons(release: PytorchRelease, platform_tag: str) -> tuple[str, ...]:
    """The minor versions of Python with official builds of a release, ``"3.14"``, oldest first."""
    tags = {tag.rstrip("t") for build in published_builds(release, platform_tag) for tag in build.python}
    return tuple(f"3.{minor}" for minor in sorted(int(tag.removeprefix("cp3")) for tag in tags))


@cache
def _read_published() -> Mapping[tuple[str, str], tuple[PublishedBuild, ...]]:
    data = shipped_toml(_FILE)
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
    return {row["name"]: row["used_by"] for row in shipped_toml(_FILE)["library"]}


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
