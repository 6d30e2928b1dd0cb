"""The list of a site's wheels, ``wheels.json``, which `index` remembers; and which of them installers are offered.

A release is one version of a project; the commit in the label tells apart nightlies of one version. A release that
lacks a wheel that the one before it had would move a machine to another kind of wheel, such as a GPU to the CPU. So it
is held back until the wheel is there, or somebody decides otherwise.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import NormalizedName, parse_wheel_filename
from packaging.version import Version

from torchwheel.hardware.arch import Verdict, judge_code, parse_architectures
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import join_items
from torchwheel.versions import cpython_abi
from torchwheel.wheel.manifest import find_misfit
from torchwheel.wheel.objfile import without_libc

CATALOGUE = "wheels.json"  # its path in the site
MOST_BYTES = 16 << 20  # a wheel takes about 1 kB of it
# The folder of the index of wheels without a label, which are listed in every other index too.
COMPANIONS = "companions"

_SCHEMA = 2
_LONGEST_NAME = 255
_COMMIT = re.compile(r"(git[0-9a-f]{7,40})(?:\.|$)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE_SHAPE = {"path": str, "size": int, "time": int, "sha256": str, "metadata_sha256": str}
_SHAPE = {
    "file": _FILE_SHAPE,
    "requires_python": (str, None),
    "cuda": (str, None),
    "code": [str],
    "properties": ({"*": [str]}, None),
    "no_variant": str,
    "variant": (_FILE_SHAPE, None),
    "built": str,
    "decision": str,
    "held": str,
}


@dataclass(frozen=True)
class SiteFile:
    """A wheel as a file of a site; its time, in nanoseconds, and size say whether the hashes still hold."""

    path: str
    size: int
    time: int
    sha256: str
    metadata_sha256: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class SiteWheel:
    """A wheel of a site.

    Attributes:
        code: the device code in it, as labels have it: ``("sm120", "ptx120")``.
        properties: what a wheel variant can say of it, values by NVIDIA's feature; None where it cannot be one.
        no_variant: why it cannot be one, or is none beside the others.
        built: when its newest file was written, as text that sorts by time.
        decision: what was decided about its release.
        held: why installers are not offered it.
    """

    file: SiteFile
    requires_python: str | None
    cuda: str | None
    code: tuple[str, ...]
    properties: Mapping[str, tuple[str, ...]] | None
    no_variant: str = ""
    variant: SiteFile | None = None
    built: str = ""
    decision: str = ""
    held: str = ""

    @property
    def name(self) -> NormalizedName:
        return self._parsed[0]

    @property
    def version(self) -> Version:
        return self._parsed[1]

    @property
    def tags(self) -> frozenset[Tag]:
        return self._parsed[3]

    @property
    def label(self) -> str:
        return split_label(self.version)[1]

    @property
    def commit(self) -> str:
        """What the label of a nightly begins with, ``git1234567``."""
        return split_label(self.version)[0]

    @property
    def index(self) -> str:
        return self.label or COMPANIONS

    def verdict_on(self, gpu: Architecture) -> Verdict:
        return judge_code(parse_architectures(self.code).targets if self.code else (), gpu)

    @cached_property
    def _parsed(self) -> tuple[NormalizedName, Version, object, frozenset[Tag]]:
        return parse_wheel_filename(self.file.name)


def catalogue_text(wheels: Iterable[SiteWheel]) -> str:
    ordered = sorted(wheels, key=lambda one: one.file.path)
    lines = ",\n".join(json.dumps(asdict(wheel), sort_keys=True) for wheel in ordered)
    return f'{{"schema": {_SCHEMA}, "wheels": [\n{lines}\n]}}\n'


def parse_catalogue(data: bytes, origin: str) -> tuple[SiteWheel, ...]:
    """Read the list of a site that need not be trusted."""
    detail = f"it is not of schema {_SCHEMA}"
    try:
        document = json.loads(data)
        if isinstance(document, dict) and document.get("schema") == _SCHEMA:
            return tuple(map(_read_wheel, document["wheels"]))
    except (AttributeError, KeyError, RecursionError, TorchwheelError, TypeError, ValueError) as error:
        detail = f"{type(error).__name__}: {error}"[:200]
    raise refusal("malformed-site-list", origin=origin, detail=detail)


def _read_wheel(row: Mapping[str, Any]) -> SiteWheel:
    if (part := find_misfit(row, _SHAPE)) is not None:
        raise TypeError(f"{part} is missing, or of another type")
    read = {name: row[name] for name in SiteWheel.__dataclass_fields__}
    read.update(file=_read_file(row["file"]), code=tuple(row["code"]))
    read["properties"] = row["properties"] and {name: tuple(some) for name, some in row["properties"].items()}
    read["variant"] = row["variant"] and _read_file(row["variant"])
    wheel = SiteWheel(**read)
    # Parsed only to refuse a malformed one here and not where a wheel is chosen.
    SpecifierSet(wheel.requires_python or "")
    if wheel.file.path != path_of(wheel.file.name):
        raise ValueError(f"{wheel.file.path!r} is no path of a wheel in a site")
    if wheel.variant and PurePosixPath(wheel.variant.path).parts[:-1] != ("simple", wheel.name):
        raise ValueError(f"{wheel.variant.path!r} is no path of a wheel variant in a site")
    if wheel.code:
        parse_architectures(wheel.code)
    return wheel


def _read_file(row: Mapping[str, Any]) -> SiteFile:
    file = SiteFile(**{name: row[name] for name in SiteFile.__dataclass_fields__})
    # The tags of a name are multiplied out.
    if len(file.name) > _LONGEST_NAME:
        raise ValueError("a file name is longer than any file system takes")
    if min(file.size, file.time) < 0:
        raise ValueError("a size or time is negative")
    if not all(_SHA256.fullmatch(value) for value in (file.sha256, file.metadata_sha256)):
        raise ValueError("a hash is not SHA-256")
    return file


def split_label(version: Version) -> tuple[str, str]:
    """Return the commit that a version's local label begins with, as PyTorch's own version has it, and the rest."""
    local = version.local or ""
    match = _COMMIT.match(local)
    return (match[1], local[match.end() :]) if match else ("", local)


def path_of(file_name: str) -> str:
    """Where a wheel lies in a site; raises InvalidWheelFilename."""
    name, version, _, _ = parse_wheel_filename(file_name)
    return f"{split_label(version)[1] or COMPANIONS}/simple/{name}/{file_name}"


_CPYTHON = re.compile(r"cp(?P<major>\d)(?P<minor>\d{1,3})(?P<free_threaded>t?)")

# Decisions about a release; another one says what it lacks of its plan.
COMPLETE, YANKED = "complete", "yanked"
LACKS = "the release lacks "

Release = tuple[NormalizedName, Version, str]  # name, version without label, and the commit of a nightly


@dataclass(frozen=True)
class PlannedWheel:
    """A wheel that a fleet is to have, as a job of `torchwheel matrix` plans it."""

    gpus: tuple[NamedGpu, ...]
    python: str
    platform: str

    def is_in(self, wheels: Iterable[SiteWheel]) -> bool:
        abi = cpython_abi(self.python)
        tag = Tag(abi.rstrip("t"), abi, self.platform)
        return any(
            _is_for(tag, wheel)
            and bool(wheel.code) is bool(self.gpus)
            and all(wheel.verdict_on(gpu.compute_capability).how.runs for gpu in self.gpus)
            for wheel in wheels
        )

    def __str__(self) -> str:
        gpus = join_items([gpu.name for gpu in self.gpus]) or "the CPU"
        return f"{gpus}, Python {self.python} on {self.platform}"


def release_of(wheel: SiteWheel) -> Release:
    return wheel.name, Version(wheel.version.public), wheel.commit


def decide_releases(
    wheels: Iterable[SiteWheel],
    decisions: Mapping[Release, str],
    planned: Mapping[Release, Sequence[PlannedWheel]],
) -> list[SiteWheel]:
    """Return the wheels of a site, each with why installers are not offered it.

    Args:
        decisions: what somebody decides now; earlier decisions are in the wheels.
        planned: what a release must have instead of what the one before it had.
    """
    releases: dict[Release, list[SiteWheel]] = defaultdict(list)
    for wheel in wheels:
        releases[release_of(wheel)].append(wheel)
    projects: dict[str, list[list[SiteWheel]]] = defaultdict(list)
    for release, own in releases.items():
        decision = decisions.get(release) or next((one.decision for one in own if one.decision), "")
        if jobs := planned.get(release):
            decision = _describe_lack([str(job) for job in jobs if not job.is_in(own)]) or COMPLETE
        projects[release[0]].append([replace(one, decision=decision) for one in own])
    return [wheel for project in projects.values() for wheel in _decide_project(project)]


def _decide_project(releases: list[list[SiteWheel]]) -> Iterator[SiteWheel]:
    releases.sort(key=lambda own: (release_of(own[0])[1], max(wheel.built for wheel in own)))
    decided: list[SiteWheel] = []
    before: list[SiteWheel] = []
    for own in releases:
        if not (held := _why_held(own, before)):
            # Of nightlies with one version, installers would take the commit that sorts last.
            decided, before = [_supersede(older, own[0]) for older in decided], own
        decided += (replace(wheel, held=held) for wheel in own)
    offered = [wheel for wheel in decided if not wheel.held]
    for wheel in decided:
        # Code that no other wheel has takes no machine away from another wheel.
        alone = wheel.held.startswith(LACKS) and _has_code_of_its_own(wheel, offered)
        yield replace(wheel, held="") if alone else wheel


def _why_held(own: Sequence[SiteWheel], before: Sequence[SiteWheel]) -> str:
    if decision := own[0].decision:
        return {COMPLETE: "", YANKED: "withdrawn"}.get(decision, decision)
    lacking = [
        f"{wheel.label or wheel.name} for {tag}"
        for wheel in before
        for tag in sorted(wheel.tags, key=str)
        if not any(one.label == wheel.label and _is_for(tag, one) for one in own)
    ]
    return _describe_lack(lacking)


def _describe_lack(missing: Sequence[str]) -> str:
    return f"{LACKS}{join_items(tuple(dict.fromkeys(missing)))}" if missing else ""


def _has_code_of_its_own(wheel: SiteWheel, offered: Iterable[SiteWheel]) -> bool:
    others = [one for one in offered if all(_is_for(tag, one) for tag in wheel.tags)]
    return not {label for one in others for label in one.code}.issuperset(wheel.code)


def _supersede(older: SiteWheel, newer: SiteWheel) -> SiteWheel:
    superseded = not older.held and release_of(older)[:2] == release_of(newer)[:2]
    return replace(older, held=f"superseded by {newer.version}") if superseded else older


def _is_for(tag: Tag, wheel: SiteWheel) -> bool:
    """Whether a machine that takes a tag takes a wheel; every manylinux counts as Linux."""
    platform = without_libc(tag.platform)
    taken = {Tag(tag.interpreter, tag.abi, platform)}
    if python := _CPYTHON.fullmatch(tag.abi):
        version = int(python["major"]), int(python["minor"])
        taken.update(cpython_tags(version, [tag.abi], [platform]))
        taken.update(compatible_tags(version, tag.interpreter, [platform]))
    return any(Tag(one.interpreter, one.abi, without_libc(one.platform)) in taken for one in wheel.tags)
