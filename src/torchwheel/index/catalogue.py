"""The list of a site's wheels, ``wheels.json``: what `index` remembers, and what `get` chooses from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, NormalizedName, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from torchwheel.hardware.arch import ArchitectureList, parse_architectures
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.hardware.runs_on import HowItRuns, Verdict, judge_code
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import join_items
from torchwheel.versions import parse_numbers
from torchwheel.wheel.manifest import find_misfit

CATALOGUE = "wheels.json"
"""Its path in the site."""

MOST_BYTES = 16 << 20
"""A wheel takes about 1 kB of it."""

COMPANIONS = "companions"
"""The folder of the index of wheels without a label, which are listed in every other index too."""

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
    """A wheel as a file of a site.

    Attributes:
        time: its modification time in nanoseconds; with the size it says whether the hashes still hold.
    """

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
        no_variant: why it cannot be one, or is none beside the others; empty where it can.
        built: when its newest file was written, as text that sorts by time.
        decision: what was decided about its release: see :mod:`torchwheel.fleet.releases`.
        held: why installers are not offered it; empty where they are.
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
        """With the local label."""
        return self._parsed[1]

    @property
    def tags(self) -> frozenset[Tag]:
        return self._parsed[3]

    @property
    def label(self) -> str:
        return split_label(self.version)[1]

    @property
    def commit(self) -> str:
        """The commit that the label begins with, ``git1234567``; empty for none."""
        return split_label(self.version)[0]

    @property
    def index(self) -> str:
        return self.label or COMPANIONS

    @property
    def architectures(self) -> ArchitectureList | None:
        return parse_architectures(self.code) if self.code else None

    @cached_property
    def _parsed(self) -> tuple[NormalizedName, Version, object, frozenset[Tag]]:
        return parse_wheel_filename(self.file.name)


def catalogue_text(wheels: Iterable[SiteWheel]) -> str:
    lines = ",\n".join(
        json.dumps(asdict(wheel), sort_keys=True) for wheel in sorted(wheels, key=lambda one: one.file.path)
    )
    return f'{{"schema": {_SCHEMA}, "wheels": [\n{lines}\n]}}\n'


def parse_catalogue(data: bytes, origin: str) -> tuple[SiteWheel, ...]:
    """Read the list of a site that need not be trusted."""
    try:
        document = json.loads(data)
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
            raise refusal("malformed-site-list", origin=origin, detail=f"it is not of schema {_SCHEMA}")
        return tuple(map(_read_wheel, document["wheels"]))
    except (
        AttributeError,
        InvalidSpecifier,
        InvalidWheelFilename,
        KeyError,
        RecursionError,
        TorchwheelError,
        TypeError,
        ValueError,
    ) as error:
        if isinstance(error, TorchwheelError) and error.problems[0].id == "malformed-site-list":
            raise
        detail = f"{type(error).__name__}: {error}"[:200]
        raise refusal("malformed-site-list", origin=origin, detail=detail) from None


def _read_wheel(row: Mapping[str, Any]) -> SiteWheel:
    if (part := find_misfit(row, _SHAPE)) is not None:
        raise TypeError(f"{part} is missing, or of another type")
    known = {name: row[name] for name in SiteWheel.__dataclass_fields__}
    properties = row["properties"] and {name: tuple(values) for name, values in row["properties"].items()}
    variant = row["variant"] and _read_file(row["variant"])
    read = {"file": _read_file(row["file"]), "code": tuple(row["code"])}
    wheel = SiteWheel(**{**known, **read, "properties": properties, "variant": variant})
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
    match = _COMMIT.match(version.local or "")
    return (match[1], version.local[match.end() :]) if match and version.local else ("", version.local or "")


def path_of(file_name: str) -> str:
    """Return where a wheel lies in a site, by its file name: in the index of its label, without a nightly's commit.

    Raises:
        InvalidWheelFilename: it is no file name of a wheel.
    """
    name, version, _, _ = parse_wheel_filename(file_name)
    return f"{split_label(version)[1] or COMPANIONS}/simple/{name}/{file_name}"


_BEST_FIRST = tuple(HowItRuns)


@dataclass(frozen=True)
class Machine:
    """What a wheel is wanted for.

    Attributes:
        tags: the tags that the interpreter takes, each with its place in the order of preference.
        takes_cuda: whether the driver runs programs of a release of CUDA.
    """

    gpus: tuple[NamedGpu, ...]
    python: str
    tags: Mapping[Tag, int]
    takes_cuda: Callable[[str], bool]


@dataclass(frozen=True)
class SiteChoice:
    wheel: SiteWheel | None
    reasons: tuple[str, ...]


def choose_wheel(
    wheels: Iterable[SiteWheel], wanted: Requirement, machine: Machine, *, without_gpu: bool
) -> SiteChoice:
    """Return the newest wheel that runs on all GPUs of a machine, and of several the one that runs best.

    Args:
        without_gpu: whether a wheel without device code may be the last resort; it is the only kind for a machine
            without GPUs.
    """
    named = [wheel for wheel in wheels if wheel.name == canonicalize_name(wanted.name)]
    if not named:
        return SiteChoice(None, (f"no wheel of {wanted.name}",))
    passed_over: dict[str, list[str]] = {}
    able: list[SiteWheel] = []
    for wheel in named:
        if why := _why_refused(wheel, wanted, machine, without_gpu):
            passed_over.setdefault(why, []).append(wheel.file.name)
        else:
            able.append(wheel)
    # As installers do it: a pre-release only where it is asked for, or nothing else fits.
    final = [wheel for wheel in able if not wheel.version.is_prerelease]
    if not wanted.specifier.prereleases and final:
        able = final
    reasons = [f"{why}: {join_items(names, 3)}" for why, names in passed_over.items()]
    if not able:
        return SiteChoice(None, tuple(reasons))
    best = max(able, key=lambda wheel: _rank_wheel(wheel, machine))
    return SiteChoice(best, (_describe_choice(best, machine.gpus), *reasons))


def _why_refused(wheel: SiteWheel, wanted: Requirement, machine: Machine, without_gpu: bool) -> str:
    """Why a wheel cannot be the one; empty where it can."""
    python = SpecifierSet(wheel.requires_python or "")
    if not wanted.specifier.contains(wheel.version, prereleases=True):
        return f"not {wanted.specifier}"
    if wheel.held:
        return f"held back ({wheel.held})"
    if wheel.tags.isdisjoint(machine.tags) or not python.contains(machine.python, prereleases=True):
        return "for other Pythons or platforms"
    if not machine.gpus:
        return "for GPUs" if wheel.code or wheel.cuda else ""
    if not wheel.code:
        return "" if without_gpu else "for the CPU"
    lacking = [gpu.name for gpu in machine.gpus if not _how_it_runs(wheel, gpu).how.runs]
    if lacking:
        return f"does not run on {join_items(lacking)}"
    return "" if wheel.cuda is None or machine.takes_cuda(wheel.cuda) else "for a newer driver"


def _how_it_runs(wheel: SiteWheel, gpu: NamedGpu) -> Verdict:
    code = wheel.architectures
    return judge_code(code.targets if code else (), gpu.compute_capability)


def _rank_wheel(wheel: SiteWheel, machine: Machine) -> tuple[object, ...]:
    """The greater, the better: by the GPU that it runs worst on."""
    on_gpus = [_how_it_runs(wheel, gpu) for gpu in machine.gpus] if wheel.code else []
    # Of code for two earlier minor revisions, that for the later one.
    # 120 of sm_120a
    numbers = [int("".join(filter(str.isdigit, one.image or "")) or 0) for one in on_gpus]
    ranks = (-_BEST_FIRST.index(one.how) for one in on_gpus)
    how = min(zip(ranks, numbers, strict=True), default=(0, 0))
    tag = min(machine.tags[tag] for tag in wheel.tags & machine.tags.keys())
    torch = parse_numbers(wheel.label.partition("torch")[2])
    version = Version(wheel.version.public)
    return bool(wheel.code), version, how, parse_numbers(wheel.cuda or ""), torch, -tag


def _describe_choice(wheel: SiteWheel, gpus: Sequence[NamedGpu]) -> str:
    if wheel.code:
        return "; ".join(f"{gpu.name}: {_how_it_runs(wheel, gpu).sentence}" for gpu in gpus)
    return "no wheel has device code for the GPU, and this one needs none" if gpus else "it needs no GPU"
